"""Parts of `compress`: candidates, the search among them, the promise and recovery."""
