"""What provisioning does on the controller: packages, wheels, archives, secrets. Ansible (ansible/) does the rest."""
