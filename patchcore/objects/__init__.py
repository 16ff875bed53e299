"""How Python objects are looked at, called and generated, without running code of theirs."""
