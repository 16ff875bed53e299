# A comment at the top.

"""Only objects of others."""

import helpers
# about the loop
for batch in helpers.batches():
    batch.cuda()
