package netconfig

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"writ"
)

// vlanModule is the kernel module for VLANs. It is loaded only if the settings name a VLAN.
const vlanModule = "8021q"

// enterVLAN puts a card into the configured VLAN: c.link becomes the VLAN's interface. The card itself gets no address.
func (n *Network) enterVLAN(c *card) error {
	if n.Loader != nil {
		if _, err := n.Loader.Named([]string{vlanModule}); err != nil {
			return err
		}
	}
	if err := c.setIPv6("disable_ipv6", "1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("turn off IPv6 outside of the VLAN of %s: %w", c.name(), err)
	}
	if err := netlink.LinkSetUp(c.link); err != nil {
		return fmt.Errorf("turn on %s: %w", c.name(), err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = fmt.Sprintf("%s.%d", c.name(), n.settings.VLAN), c.link.Attrs().Index
	if err := netlink.LinkAdd(&netlink.Vlan{
		LinkAttrs: attrs, VlanId: n.settings.VLAN, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q,
	}); err != nil {
		return vlanError(c.name(), n.settings.VLAN, err)
	}
	inside, err := netlink.LinkByName(attrs.Name)
	if err != nil {
		return vlanError(c.name(), n.settings.VLAN, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c.link = inside
	return nil
}

// vlanError returns the error for a VLAN that cannot be created.
func vlanError(name string, id int, err error) error {
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("make the VLAN %d of %s: %w", id, name, err)
	}
	return writ.Errorf(writ.CodeUsage, "make the VLAN %d of %s: this image has no module %s", id, name, vlanModule).
		WithHint("build the image with `--module %s`, and with a kernel that has it: Debian's linux-image-cloud-amd64 and linux-image-amd64 do", vlanModule)
}
