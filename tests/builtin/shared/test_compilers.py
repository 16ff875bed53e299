"""Finding the compiler: what a variable may hold."""

from __future__ import annotations

import pytest

from patchcore.builtin.shared.compilers import CompilerError, find_compiler


@pytest.mark.parametrize("variable", ["CC", "CXX"])
def test_a_quote_that_is_not_closed_is_an_error_with_the_lines_that_mend_it(variable: str) -> None:
    with pytest.raises(CompilerError) as caught:
        find_compiler({variable: "'/opt/my tools/g++ -O2", "PATH": "/bin"}, variable=variable)
    message = str(caught.value)
    assert message.startswith(f'{variable} is "\'/opt/my tools/g++ -O2", which is no command: No closing quotation.')
    assert f"unset {variable}" in message
