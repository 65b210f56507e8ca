package netdev

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/lazyregexp"
	"writ/sal"
)

// links changes the links of one network namespace.
type links struct {
	*changes
	kernel *netlink.Handle
}

// alias returns the alias of a link that this driver creates. It begins with aliasPrefix and contains the UID of the
// owner.
func alias(uid writ.UID) string { return aliasPrefix + string(uid) }

const aliasPrefix = "writ "

// isOurs reports whether this driver created a link.
func isOurs(l netlink.Link) bool { return strings.HasPrefix(l.Attrs().Alias, aliasPrefix) }

// find returns a link by its name, or nil.
func (s links) find(name string) (netlink.Link, error) {
	l, err := s.kernel.LinkByName(name)
	if _, gone := errors.AsType[netlink.LinkNotFoundError](err); gone {
		return nil, nil
	}
	return l, err
}

// ours returns the link with the given name, type and UID, or nil. If this driver created a link with this name, but
// with another type or UID, it removes that link. It returns RESOURCE_CONFLICT if another program created the link.
func (s links) ours(name, kind string, uid writ.UID) (netlink.Link, error) {
	l, err := s.find(name)
	if err != nil || l == nil {
		return nil, err
	}
	if !isOurs(l) {
		return nil, writ.Errorf(writ.CodeResourceConflict,
			"the node has an interface %s of type %s, which writ did not create", name, l.Type()).
			WithHint("inspect it with `ip -d link show %s`; if it is unused: `ip link delete %s`", name, name)
	}
	if l.Type() == kind && l.Attrs().Alias == alias(uid) {
		return l, nil
	}
	return nil, s.remove(name)
}

// remove removes a link if it exists and this driver created it.
func (s links) remove(name string) error {
	l, err := s.find(name)
	if err != nil || l == nil || !isOurs(l) {
		return err
	}
	s.step("delete the link " + name)
	return ignoring(s.kernel.LinkDel(l), unix.ENODEV)
}

// temporaryName returns the name that a link has until its alias is set. Only this driver uses such names.
func temporaryName(name string) string { return "w" + name }

// create creates a link. It sets the alias before the final name, so that a link with a final name always has the alias
// of this driver.
func (s links) create(l netlink.Link, uid writ.UID) (netlink.Link, error) {
	name := l.Attrs().Name
	if err := s.removeTemporary(name); err != nil {
		return nil, err
	}
	l.Attrs().Name = temporaryName(name)
	s.step("make the link " + name)
	if err := s.kernel.LinkAdd(l); err != nil {
		return nil, err
	}
	made, err := s.kernel.LinkByName(temporaryName(name))
	if err != nil {
		return nil, err
	}
	s.step("mark the link " + name)
	if err := s.kernel.LinkSetAlias(made, alias(uid)); err != nil {
		return nil, err
	}
	s.step("name the link " + name)
	if err := s.kernel.LinkSetName(made, name); err != nil {
		return nil, err
	}
	return s.kernel.LinkByIndex(made.Attrs().Index)
}

// removeTemporary removes a link that an interrupted create left.
func (s links) removeTemporary(name string) error {
	l, err := s.find(temporaryName(name))
	if err != nil || l == nil {
		return err
	}
	s.step("delete the unfinished link " + name)
	return ignoring(s.kernel.LinkDel(l), unix.ENODEV)
}

// removeAll removes a link, and the unfinished link of an interrupted create.
func (s links) removeAll(name string) error {
	return errors.Join(s.removeTemporary(name), s.remove(name))
}

// rangesOf returns the ranges of networks with damaged records, from the addresses of their bridges. It omits networks
// whose bridge is missing.
func (s links) rangesOf(damaged []sal.Damaged) (all []netip.Prefix, err error) {
	for _, d := range damaged {
		bridge, err := s.find(d.HostName)
		if err != nil {
			return nil, failed("inspect the bridge "+d.HostName, err)
		}
		if bridge == nil {
			continue
		}
		addresses, err := s.kernel.AddrList(bridge, netlink.FAMILY_ALL)
		if err != nil {
			return nil, failed("list the addresses of the bridge "+d.HostName, err)
		}
		for _, a := range addresses {
			all = append(all, prefixOf(a.IPNet))
		}
	}
	return all, nil
}

// deviceName matches the names of devices that only this driver uses.
var deviceName = lazyregexp.New(`^w?(n[a-z2-7]{10}|p[a-z2-7]{10}-([0-9]+|p))$`)

// orphans returns the links of this driver that are not `known`.
func (s links) orphans(known map[string]bool) (all []sal.Orphan, err error) {
	links, err := s.kernel.LinkList()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		name := l.Attrs().Name
		final, unfinished := strings.CutPrefix(name, temporaryName(""))
		unfinished = unfinished && deviceName.MatchString(name)
		if (isOurs(l) || unfinished) && !known[final] {
			all = append(all, sal.Orphan{
				Kind: l.Type(), Name: name, Of: networkOf(final), Remedy: sal.Command("ip", "link", "delete", name),
			})
		}
	}
	return all, nil
}

// networkOf returns the host name of the network that a device is named after, "" for a port.
func networkOf(device string) string {
	if strings.HasPrefix(device, string(writ.KindNetwork[:1])) {
		return device
	}
	return ""
}
