"""The running product: what `headwater up` starts, in order, and what it does until it is stopped."""
