package daemon

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"writ/internal/failpoint"
	"writ/sal"
	"writ/sal/cloudhypervisor"
	"writ/sal/containerd"
	"writ/sal/herodb"
	"writ/sal/mycelium"
	"writ/sal/netdev"
)

// HostConfig is what the drivers that change a host are told about it.
type HostConfig struct {
	OverlayPeers []string // of mycelium: where its daemon connects to
	Containerd   string   // socket of the daemon, its usual place if empty
	Firmware     string   // with which machines boot that have no kernel
}

// openHost adds every driver that this host has the tools for. What it lacks is logged, and the node does not offer it.
func (d *drivers) openHost(ctx context.Context, c driverConfig, dir string) {
	lacks := func(module string, err error) {
		c.Log.WarnContext(ctx, "this node does without a module", "module", module, "err", err)
	}
	storage := openStorage(dir)
	d.all = storage.drivers()
	overlay := &mycelium.Node{Dir: filepath.Join(dir, "mycelium"), Log: c.Log, Peers: c.Host.OverlayPeers, Outlive: true, Step: failpoint.Step("mycelium")}
	d.services = append(d.services, overlay.Run)
	var networks sal.Networks
	if err := netdev.Usable(""); err != nil {
		lacks("network", err)
	} else {
		driver := &netdev.Driver{Dir: filepath.Join(dir, "network"), Overlay: overlay, Step: failpoint.Step("network")}
		networks = driver
		d.all = append(d.all, driver)
	}
	databases := &herodb.Driver{
		Dir: filepath.Join(dir, "herodb"), Trees: storage.trees, Networks: networks, Overlay: overlay, Step: failpoint.Step("herodb"),
	}
	if databases.Available(ctx) {
		d.all = append(d.all, databases)
	} else {
		lacks("herodb", errors.New(databases.Describe().Detail))
	}
	if err := d.openContainers(c, dir, storage, networks); err != nil {
		lacks("container", err)
	}
	machines := &cloudhypervisor.Driver{
		Dir: filepath.Join(dir, "machine"), Images: storage.images, Volumes: storage.volumes, Networks: networks, Firmware: c.Host.Firmware, Step: failpoint.Step("machine"),
	}
	switch _, err := machines.Probe(ctx); {
	case err != nil:
		lacks("machine", err)
	case networks == nil:
		lacks("machine", errors.New("it needs networks"))
	default:
		*storage.users = append(*storage.users, machines)
		d.all = append(d.all, machines)
	}
}

// openContainers adds the driver for containers, if a daemon has its socket where it is looked for.
func (d *drivers) openContainers(c driverConfig, dir string, storage storage, networks sal.Networks) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	address := cmp.Or(c.Host.Containerd, containerd.DefaultAddress)
	if _, err := os.Stat(address); err != nil {
		return err
	}
	driver := &containerd.Driver{
		Dir: filepath.Join(dir, "container"), Address: address, Program: program, Images: storage.images, Volumes: storage.volumes, Networks: networks,
		Log: c.Log, Step: failpoint.Step("container"),
	}
	d.all = append(d.all, driver)
	d.services = append(d.services, driver.Run)
	d.close = driver.Close
	return nil
}
