"""One module for each framework, as `workloads.common.framework.Framework` says; its name is the framework's."""
