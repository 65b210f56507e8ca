"""Renders a network-config as cloud-init does for a guest, and prints the written files as JSON.

Arguments: the directory with the modules of cloud-init, a file with a network-config, the name of a renderer (networkd, netplan or eni),
an empty directory, and the guest's interfaces as JSON, names by hardware address. Nothing of this machine changes.
"""
import importlib, json, os, sys
from unittest.mock import MagicMock

modules, config, renderer, target, interfaces = sys.argv[1:]
sys.path.insert(0, modules)
for name in ("requests", "requests.exceptions", "configobj", "jsonpatch", "jsonschema", "jinja2"):
    sys.modules[name] = MagicMock()

import yaml
from cloudinit import util
from cloudinit.net import network_state

util.chownbyname = lambda *args, **kwargs: None  # this machine may lack the user of networkd
network_state.get_interfaces_by_mac = lambda: json.loads(interfaces)
network_state.find_interface_name_from_mac = json.loads(interfaces).get
with open(config) as f:
    parsed = yaml.safe_load(f)
kind = importlib.import_module("cloudinit.net." + renderer)
state = network_state.parse_net_config_data(parsed, renderer=kind.Renderer({}) if renderer == "netplan" else None)
settings = {"networkd": {"resolve_conf_fn": "etc/resolved.conf", "network_conf_dir": "/etc/systemd/network/"},
            "netplan": {"netplan_path": "etc/netplan/50-cloud-init.yaml", "netplan_header": "", "postcmds": False},
            "eni": {"eni_path": "etc/network/interfaces", "eni_header": "", "netrules_path": None}}[renderer]
kind.Renderer(settings).render_network_state(state, target=target)
files = {}
for root, _, names in os.walk(target):
    for name in names:
        path = os.path.join(root, name)
        with open(path) as f:
            files[os.path.relpath(path, target)] = f.read()
json.dump(files, sys.stdout)
