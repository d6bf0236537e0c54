"""The controller's part of provisioning: packages, wheels, archives, secrets. Ansible (ansible/) does the rest."""
