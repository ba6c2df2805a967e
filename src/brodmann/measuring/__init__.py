"""From a model to arrays: head importance, dissociation, task relations."""
