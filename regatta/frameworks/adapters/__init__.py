"""One module a framework, which has its name: `-` is `_` there. `regatta.frameworks.registry` finds them."""
