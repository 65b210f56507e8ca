package netdev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/nftables"

	"writ"
	"writ/sal"
)

// Keep compares a network and its ports with their records, and repairs them.
func (d *Driver) Keep(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	h, leave, err := d.enterWithRange(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	r, err := h.networks().Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	if r.Own.Phase == making { // the caller of the operation repeats it or has given up
		return nil, h.clear(r)
	}
	if r, err = h.recovered(resource); err != nil || r == nil {
		return nil, err
	}
	h.drift = nil
	if _, err := h.ensure(r); err != nil {
		return h.asDrift(err)
	}
	if err := h.reportOverlap(r); err != nil {
		return nil, err
	}
	on, err := h.on(r)
	if err != nil {
		return nil, err
	}
	for _, o := range on {
		switch o.Own.Phase {
		case deleting:
			err = h.release(o.UID, o)
		case ready:
			err = h.ensureHolding(o)
		}
		if err != nil {
			return h.asDrift(err)
		}
	}
	return h.drift, nil
}

// reportOverlap reports a route or address of the node that overlaps with the IPv4 range of a network and was added
// later.
func (h *host) reportOverlap(r *sal.Record[network]) error {
	v4 := ipv4(r)
	if !v4.IsValid() {
		return nil
	}
	w, err := h.overlap(v4)
	if err != nil || w == nil {
		return err
	}
	h.drift = append(h.drift,
		sal.Drift{What: fmt.Sprintf("its range %s overlaps with %s, which is %s on this node", v4, w.to, w.how)})
	return nil
}

// asDrift reports an error as drift if an operator must act.
func (h *host) asDrift(err error) ([]sal.Drift, error) {
	if e, ok := errors.AsType[*writ.Error](err); ok && e.Code == writ.CodeResourceConflict {
		return append(h.drift, sal.Drift{What: e.Message}), nil
	}
	return h.drift, failed("repair a network", err)
}

// Names of devices and namespaces that only this driver uses.
var (
	deviceName    = regexp.MustCompile(`^w?(n[a-z2-7]{10}|p[a-z2-7]{10}-[0-9]+)$`)
	namespaceName = regexp.MustCompile(`^p[a-z2-7]{10}$`)
)

// networkOf returns the host name of the network that a device is named after, "" for a port.
func networkOf(device string) string {
	if name := strings.TrimPrefix(device, temporaryName("")); strings.HasPrefix(name, string(writ.KindNetwork[:1])) {
		return name
	}
	return ""
}

// Orphans returns links, rules and namespaces of this driver without a record.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	h, leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	devices, namespaces, damaged, err := h.recorded()
	if err != nil {
		return nil, err
	}
	all := sal.DamagedOrphans(damaged)
	links, err := h.kernel.LinkList()
	if err != nil {
		return nil, failed("list links", err)
	}
	for _, l := range links {
		name := l.Attrs().Name
		marked := strings.HasPrefix(l.Attrs().Alias, aliasPrefix)
		begun := strings.HasPrefix(name, temporaryName("")) && deviceName.MatchString(name)
		if (marked || begun) && !devices[strings.TrimPrefix(name, temporaryName(""))] {
			all = append(all, sal.Orphan{
				Kind: l.Type(), Name: name, Of: networkOf(name), Remedy: sal.Command("ip", "link", "delete", name),
			})
		}
	}
	s, err := h.rules()
	if err != nil {
		return nil, failed("list rules", err)
	}
	for _, c := range s.chains {
		if of := pieceOwner(c.Name); of != "" && !devices[of] {
			family := familyName(c.Table.Family)
			all = append(all,
				sal.Orphan{Kind: "chain", Name: family + " " + tableName + " " + c.Name, Remedy: s.remedy(c)})
		}
	}
	dir := filepath.Dir(d.namespacePath(""))
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, failed("list namespaces", err)
	}
	for _, f := range files { // otherwise it belongs to another node
		// Else it is another node's.
		if namespaceName.MatchString(f.Name()) && !namespaces[f.Name()] && d.isMarked(f.Name()) {
			path := filepath.Join(dir, f.Name())
			all = append(all, sal.Orphan{
				Kind: "namespace", Name: f.Name(),
				Remedy: sal.Command("umount", "-l", path) + "; " + sal.Command("rm", path),
			})
		}
	}
	return all, ctx.Err()
}

// recorded returns the names that records refer to, including damaged records.
func (h *host) recorded() (devices, namespaces map[string]bool, damaged []sal.Damaged, err error) {
	devices, namespaces = map[string]bool{}, map[string]bool{}
	networks, lost, err := h.networks().List()
	if err != nil {
		return nil, nil, nil, err
	}
	for _, r := range networks {
		devices[r.Resource.HostName()] = true
	}
	for _, r := range lost {
		devices[r.HostName] = true
	}
	owners, unknown, err := h.holdings().List()
	if err != nil {
		return nil, nil, nil, err
	}
	for _, o := range unknown {
		namespaces[o.HostName] = true
		names, err := h.devices(o.HostName)
		if err != nil {
			return nil, nil, nil, failed("list links and rules", err)
		}
		for _, name := range names {
			devices[name] = true
		}
	}
	for _, o := range owners {
		namespaces[o.Resource.HostName()] = o.Own.Namespace
		for _, p := range o.Own.Ports {
			devices[device(o.UID, p)] = true
		}
	}
	return devices, namespaces, slices.Concat(lost, unknown), nil
}

func familyName(f nftables.TableFamily) string {
	if f == nftables.TableFamilyBridge {
		return "bridge"
	}
	return "inet"
}

// Traffic returns the bytes that an owner received and sent through its ports since they were created, zero without
// ports.
func (d *Driver) Traffic(ctx context.Context, owner sal.Owner) (received, sent int64, err error) {
	h, leave, err := d.enter(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer leave()
	r, err := h.holdings().Get(ownerID(owner.UID))
	if err != nil || r == nil {
		return 0, 0, err
	}
	for _, p := range r.Own.Ports {
		l, err := h.link(device(r.UID, p))
		if err != nil {
			return 0, 0, failed("read the counters of "+r.Own.Owner.String(), err)
		}
		if l == nil || l.Attrs().Statistics == nil {
			continue
		}
		// Packets that the owner sends are received here.
		received += int64(l.Attrs().Statistics.TxBytes)
		sent += int64(l.Attrs().Statistics.RxBytes)
	}
	return received, sent, nil
}

// Dropped counts dropped packets.
type Dropped struct {
	Denied  int64 // to a port, from outside its network, and not allowed there
	Spoofed int64 // from a port, with a source address that is not its own
}

// Dropped returns the packets dropped at the ports of an owner since they were created, zero without ports.
func (d *Driver) Dropped(ctx context.Context, owner sal.Owner) (Dropped, error) {
	h, leave, err := d.enter(ctx)
	if err != nil {
		return Dropped{}, err
	}
	defer leave()
	r, err := h.holdings().Get(ownerID(owner.UID))
	if err != nil || r == nil {
		return Dropped{}, err
	}
	var all Dropped
	for _, p := range r.Own.Ports {
		denied, spoofed, err := h.packets(device(r.UID, p))
		if err != nil {
			return Dropped{}, failed("read the counters of "+r.Own.Owner.String(), err)
		}
		all.Denied, all.Spoofed = all.Denied+denied, all.Spoofed+spoofed
	}
	return all, nil
}

// maxPorts limits the ports in a report about dropped packets.
const maxPorts = 50

// Network returns the state of the overlay, and the packets dropped at the ports of all owners.
func (d *Driver) Network(ctx context.Context) (told writ.NodeNetwork, err error) {
	if o, ok := d.Overlay.(interface {
		Standing(ctx context.Context) (writ.Overlay, error)
	}); ok {
		overlay, err := o.Standing(ctx)
		if err != nil { // count packets in any case
			overlay.Detail = "its state is unknown: " + err.Error()
		}
		told.Overlay = &overlay
	}
	h, leave, err := d.enter(ctx)
	if err != nil {
		return told, err
	}
	defer leave()
	all, _, err := h.holdings().List()
	if err != nil {
		return told, err
	}
	for _, r := range all {
		for _, p := range r.Own.Ports {
			denied, spoofed, err := h.packets(device(r.UID, p))
			if err != nil {
				return told, failed("read the counters of "+r.Own.Owner.String(), err)
			}
			told.Denied, told.Spoofed = told.Denied+denied, told.Spoofed+spoofed
			if denied+spoofed > 0 {
				told.Ports = append(told.Ports, writ.PortDrops{
					Owner: r.Own.Owner.String(), Network: p.Network.Name, Denied: denied, Spoofed: spoofed,
				})
			}
		}
	}
	slices.SortStableFunc(told.Ports,
		func(a, b writ.PortDrops) int { return cmp.Compare(b.Denied+b.Spoofed, a.Denied+a.Spoofed) })
	told.Ports = told.Ports[:min(len(told.Ports), maxPorts)]
	return told, nil
}
