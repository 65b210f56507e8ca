package runnerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"writ"
	"writ/internal/confine"
	"writ/internal/failpoint"
	"writ/internal/userns"
	"writ/sal"
	"writ/sal/btrfs"
	"writ/sal/cloudhypervisor"
	"writ/sal/containerd"
	"writ/sal/containerd/imagestore"
	"writ/sal/containerd/registry"
	"writ/sal/herodb"
	"writ/sal/mycelium"
	"writ/sal/needs"
	"writ/sal/netdev"
)

// HostConfig holds the settings of drivers that change a host.
type HostConfig struct {
	OverlayPeers []string // addresses that mycelium connects to
	// OverlayNoDiscovery keeps mycelium from peering with daemons that it finds in local networks.
	OverlayNoDiscovery bool
	// OverlayDiscoverOn names the only interfaces on which mycelium searches for peers.
	OverlayDiscoverOn []string
	Containerd        string   // socket of containerd; "" means its default path
	Firmware          string   // for machines without a kernel
	ProjectGiB        int64    // limits volumes and databases of a project; 0 is unlimited. Also used with DriversAuto
	ImageGiB          int64    // limits fetched images; a quarter of the disk if 0. Also used with DriversAuto
	ImageDirs         []string // directories whose files every project may use as images. Also used with DriversAuto
	ImageAllow        []string // address ranges of image servers outside the internet. Also used with DriversAuto
	Registries        []string // registries of container images, with mirrors; see registry.ParsePolicy
	// ProcessUsers is the range of user numbers for processes of drivers, "200000-265535"; "none" means the runner's
	// user. If empty, it is the default range of package confine, or the runner's user if that range is unusable.
	ProcessUsers string
	// ContainerIDs is the range of user numbers for containers, userns.Many for each; "none" means the host's users. If
	// empty, it is a default range, or the host's users if that range is unusable.
	ContainerIDs string
	// ContainerInit is the path of the init program for containers. If empty, it is one of initprogram.Packaged.
	ContainerInit string
	// Devices lists the devices that containers may have, in the form of device.Parse. Simulated drivers use only the
	// names of the devices. If the list is empty, they offer every device.
	Devices []string
	// Engines lists the engines for new databases, best first. If empty, all engines of the host that protect their
	// secret are used.
	Engines []string
	// Nameservers lists the nameservers for containers and machines; "none" means no nameserver. The default is the
	// host's nameservers.
	Nameservers []string
	// Publish lists the ports of the node that containers may publish, in the form of opening.Parse; "none" means no
	// port. Also used by simulated drivers.
	Publish []string
	// Above is an ancestor of the data directory. The runner makes all directories from Above down traversable for the
	// users of driver processes. "" means that the data directory is the topmost.
	Above string
}

// hostDrivers holds all drivers that change a host, including drivers whose requirements are not met.
type hostDrivers struct {
	storage    storage
	pool       btrfs.Requirements // requirements of btrfs for volumes; if they are not met, storage uses plain directories
	overlay    *mycelium.Node
	networks   *netdev.Driver
	machines   *cloudhypervisor.Driver
	containers *containerd.Driver
	databases  *herodb.Driver
}

// newHost returns the drivers. It does not change the host.
func newHost(c driverConfig, dir string) *hostDrivers {
	h := &hostDrivers{storage: openStorage(dir, c)}
	h.pool = btrfs.Requirements{Dir: filepath.Join(dir, "pool")}
	h.overlay = c.overlay(filepath.Join(dir, "mycelium"))
	h.networks = &netdev.Driver{
		Dir: filepath.Join(dir, "network"), Overlay: h.overlay, Nameservers: c.nameservers(),
		Open: c.open, Step: failpoint.Step("network"),
	}
	h.databases = &herodb.Driver{
		Dir: filepath.Join(dir, "herodb"), Trees: h.storage.trees, Overlay: h.overlay, Engines: c.Host.Engines,
		Step: failpoint.Step("herodb"),
	}
	h.containers = &containerd.Driver{
		Connection: containerd.Connection{Address: c.Host.Containerd},
		Dir:        filepath.Join(dir, "container"),
		Images:     h.storage.images, Volumes: h.storage.volumes,
		Registries: registry.Source{Policy: c.registries(), Allow: c.Host.imageRanges(), Log: c.Log},
		Budget:     imagestore.Budget{Dir: dir, Max: c.Host.ImageGiB << 30},
		IDs:        c.containerIDs(), IDsAsked: c.Host.ContainerIDs != "", InitProgram: c.Host.ContainerInit,
		Devices: c.devices,
		Log:     c.Log, Step: failpoint.Step("container"),
	}
	machines, databases := c.accounts(filepath.Dir(dir)).Halves()
	// An explicit --process-users stays in force. If its users cannot execute the program, the program fails to start.
	if c.Host.ProcessUsers == "" && machines.Off == nil {
		machines.Off = confine.Usable([]string{"cloud-hypervisor"}, []string{"/dev/kvm", "/dev/net/tun"})
	}
	if c.Host.ProcessUsers == "" && databases.Off == nil {
		databases.Off = confine.Usable(h.databases.Offered(), nil)
	}
	h.databases.Accounts = databases
	h.machines = &cloudhypervisor.Driver{
		Inventory: cloudhypervisor.Inventory{Dir: machineDir(dir), Step: failpoint.Step("machine")},
		Accounts:  machines, Images: h.storage.images, Volumes: h.storage.volumes,
		Room:     h.storage.trees.Room,
		Firmware: c.Host.Firmware,
	}
	return h
}

// overlay returns the driver of the overlay.
func (c driverConfig) overlay(dir string) *mycelium.Node {
	return &mycelium.Node{
		Dir: dir, Log: c.Log, Outlive: true, Step: failpoint.Step("mycelium"),
		Options: mycelium.Options{
			Peers: c.Host.OverlayPeers, NoDiscovery: c.Host.OverlayNoDiscovery, DiscoveryOn: c.Host.OverlayDiscoverOn,
		},
	}
}

// Engines returns the names of all database engines.
func Engines() []string { return herodb.EngineNames() }

// Registries returns the registries of container images that a node may use by default.
func Registries() []string { return registry.Defaults }

// check rejects settings that are invalid on every host.
func (c driverConfig) check() error {
	known := herodb.EngineNames()
	for i, name := range c.Host.Engines {
		if !slices.Contains(known, name) {
			return writ.Errorf(writ.CodeUsage, "unknown engine %q for databases", name).
				WithHint("--engines takes %s, best first", strings.Join(known, ", "))
		}
		if slices.Contains(c.Host.Engines[:i], name) {
			return writ.Errorf(writ.CodeUsage, "--engines names %s twice", name).WithHint("name each once, best first")
		}
	}
	if err := mycelium.CheckPeers(c.Host.OverlayPeers); err != nil {
		return err
	}
	if _, err := registry.ParsePolicy(c.Host.Registries); err != nil {
		return err
	}
	if named := c.Host.ContainerInit; named != "" && !filepath.IsAbs(named) {
		return writ.Errorf(writ.CodeUsage, "--container-init %q is not an absolute path", named).
			WithHint("name the file, such as /usr/bin/catatonit")
	}
	if c.Host.silent() {
		return nil
	}
	for _, text := range c.Host.Nameservers {
		server, err := netip.ParseAddr(text)
		if err == nil {
			err = netdev.CheckNameserver(server)
		}
		if err != nil {
			return writ.Errorf(writ.CodeUsage, "%q is not a usable nameserver: %w", text, err).
				WithHint("pass an address that containers and machines can reach, such as --nameserver 192.0.2.53, or --nameserver none alone")
		}
	}
	return nil
}

// registries returns the permitted registries. check has rejected invalid ones.
func (c driverConfig) registries() registry.Policy {
	policy, _ := registry.ParsePolicy(c.Host.Registries)
	return policy
}

// silent reports whether the node announces no nameserver.
func (h HostConfig) silent() bool { return slices.Equal(h.Nameservers, []string{"none"}) }

// nameservers returns a function that lists the nameservers for networks, nil for none.
func (c driverConfig) nameservers() func() []netip.Addr {
	if c.Host.silent() {
		return nil
	}
	var named []netip.Addr
	for _, text := range c.Host.Nameservers {
		if server, err := netip.ParseAddr(text); err == nil { // check has rejected invalid ones
			named = append(named, server)
		}
	}
	if len(named) == 0 {
		return netdev.HostNameservers
	}
	return func() []netip.Addr { return named }
}

// accounts returns the users of driver processes. Off is set if they cannot reach the data directory.
func (c driverConfig) accounts(data string) *confine.Accounts {
	a := c.numbers(data)
	if a.Used() {
		a.Off = a.Passable()
	}
	return a
}

// numbers returns the users of driver processes, without a check of the data directory.
func (c driverConfig) numbers(data string) *confine.Accounts {
	a := parseUsers("process-users",
		cmp.Or(c.Host.ProcessUsers, fmt.Sprintf("%d-%d", confine.DefaultFirst, confine.DefaultLast)))
	a.Top = cmp.Or(c.Host.Above, data)
	return a
}

// The default range of user numbers for containers. It has room for 700 containers and follows the range for processes.
const (
	firstContainerID = 2011000000
	lastContainerID  = firstContainerID + 700*userns.Many - 1
)

// containerIDs returns the users of containers.
func (c driverConfig) containerIDs() *confine.Accounts {
	a := parseUsers("container-ids", cmp.Or(c.Host.ContainerIDs, fmt.Sprintf("%d-%d", firstContainerID, lastContainerID)))
	if a.Used() && a.Last-a.SharedGroup+1 < userns.Many {
		a.Off = fmt.Errorf("%s are fewer than the %d user numbers that a container gets", a.Numbers(), userns.Many)
	}
	return a
}

// parseUsers parses the value of a flag with user numbers. It sets Off, with a hint, if the numbers cannot be used, for
// example because a user of this host has one of them.
func parseUsers(flag, text string) *confine.Accounts {
	off := func(hint string, err error) error {
		return writ.Errorf(writ.CodeDriverMissing, "%w", err).WithHint("%s", hint)
	}
	switch {
	case text == noUsers:
		return &confine.Accounts{Off: off("omit --"+flag+" none", fmt.Errorf("--%s none", flag))}
	case os.Geteuid() != 0:
		return &confine.Accounts{Off: off("run the node as root", errors.New("only root can start processes as other users"))}
	}
	a, err := confine.ParseAccounts(text)
	if err != nil {
		return &confine.Accounts{Off: err}
	}
	if err := errors.Join(a.Strangers(), a.Mapped()); err != nil {
		a.Off = off("choose other numbers with --"+flag, err)
	}
	return a
}

// noUsers is the value of --process-users and --container-ids that reserves no user numbers.
const noUsers = "none"

// checkUsers rejects explicit user numbers that cannot be used, because running processes as root instead would be
// unsafe.
func (c driverConfig) checkUsers(data string) error {
	asked := func(text string) bool { return text != "" && text != noUsers }
	users, ids := c.accounts(data), c.containerIDs()
	switch {
	case asked(c.Host.ProcessUsers) && users.Off != nil:
		return writ.Errorf(writ.CodeUsage, "cannot start processes as the users --process-users %s: %w",
			c.Host.ProcessUsers, users.Off).
			WithHint("%s", needs.AccountsFix)
	case asked(c.Host.ContainerIDs) && ids.Off != nil:
		return writ.Errorf(writ.CodeUsage, "cannot give containers the users --container-ids %s: %w",
			c.Host.ContainerIDs, ids.Off).
			WithHint("run the node as root, and choose numbers that no other program uses; with --container-ids none, containers use the host's user numbers")
	case users.Used() && ids.Used() && users.SharedGroup <= ids.Last && ids.SharedGroup <= users.Last:
		return writ.Errorf(writ.CodeUsage, "the user numbers of processes and of containers overlap: %s and %s",
			users.Numbers(), ids.Numbers()).
			WithHint("choose another range with --process-users or --container-ids")
	}
	return nil
}

// usersFile is the lock file for user numbers on this host. Each node locks its own numbers in it.
const usersFile = "/run/writ-users"

// claimUsers reserves the user numbers of this node on this host while it runs. If two nodes shared numbers, a process
// that escapes from a machine of one node could attack a machine of the other. Network namespaces do not help: nodes in
// separate namespaces share the host's users.
func (c driverConfig) claimUsers(ctx context.Context, data string) (io.Closer, error) {
	var claims closers
	for _, users := range []struct {
		owners, flag string
		*confine.Accounts
	}{{"processes", "process-users", c.accounts(data)}, {"containers", "container-ids", c.containerIDs()}} {
		if !users.Used() {
			continue
		}
		claim, err := users.Claim(usersFile)
		if taken, ok := errors.AsType[*confine.Taken](err); ok {
			return nil, errors.Join(writ.Errorf(writ.CodeUsage, "the user numbers %s for %s are in use: %w",
				users.Numbers(), users.owners, taken).
				WithHint("choose another range for this node: --%s %s", users.flag, taken.Others()), claims.Close())
		}
		if err != nil {
			c.Log.WarnContext(ctx, "cannot reserve user numbers: another node on this host may use the same",
				"users", users.Numbers(), "err", err)
			continue
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// closers closes several closers.
type closers []io.Closer

func (all closers) Close() error {
	var err error
	for _, one := range all {
		err = errors.Join(err, one.Close())
	}
	return err
}

// withNetworks connects the drivers that use networks to the driver of networks.
func (h *hostDrivers) withNetworks() {
	h.databases.Networks, h.containers.Networks, h.machines.Networks = h.networks, h.networks, h.networks
}

// needs lists every driver by module, in order of dependency. It does not read the requirements: the requirements of
// databases, containers and machines depend on the networks, which examine connects before it reads them.
func (h *hostDrivers) needs() []moduleNeeds {
	return []moduleNeeds{
		{"image", h.storage.images},
		{"volume", h.pool},
		{"overlay", h.overlay},
		{"network", h.networks},
		{"machine", h.machines},
		{"container", h.containers},
		{"herodb", h.databases},
	}
}

// moduleNeeds is a driver with requirements. The overlay counts as a module although it has no operations.
type moduleNeeds struct {
	module string
	needs.Needy
}

// examine checks all requirements, and connects the networks if they are available.
func (h *hostDrivers) examine(ctx context.Context) []needs.Finding {
	var all []needs.Finding
	for _, m := range h.needs() {
		found := needs.Examine(ctx, m.module, m.Needs())
		if m.module == "network" && needs.Refusal(found) == nil {
			h.withNetworks()
		}
		all = append(all, found...)
	}
	return all
}

// HostNeeds checks all requirements of a node with DriversHost and this data directory, without changing the host.
func HostNeeds(ctx context.Context, data string, host HostConfig) (found []needs.Finding, err error) {
	dir, err := filepath.Abs(hostDir(data))
	if err != nil {
		return nil, err
	}
	c := driverConfig{Host: host, Log: slog.New(slog.DiscardHandler)}
	if err := errors.Join(c.check(), host.checkImages(filepath.Dir(dir)),
		c.overlay("").CheckDiscovery(ctx)); err != nil {
		return nil, err
	}
	if c.devices, err = host.devices(); err != nil {
		return nil, err
	}
	h := newHost(c, dir)
	defer func() { err = errors.Join(err, h.containers.Close()) }()
	return h.examine(ctx), nil
}

// hostDir returns the directory of the drivers' data.
func hostDir(data string) string { return filepath.Join(data, "host") }

// hostMark is an abstract socket that only one process of a network namespace can have.
const hostMark = "@writ-host"

// claimHost ensures that no other node changes this host. Two nodes would remove each other's links.
func claimHost() (io.Closer, error) {
	if runtime.GOOS != "linux" {
		return io.NopCloser(nil), nil // the drivers have no effect there
	}
	mark, err := net.Listen("unix", hostMark)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, writ.Errorf(writ.CodeUsage,
			"another node with --drivers host runs in this network namespace: two nodes would delete each other's networks").
			WithHint("stop that node first, or start this one in a separate network namespace: ip netns exec NAME writ runner …")
	}
	return mark, err
}

// openHost adds every driver whose requirements the host meets, and logs the missing requirements with their fixes. A
// driver that has resources is added even without its requirements, but cannot create more.
func (d *drivers) openHost(ctx context.Context, c driverConfig, dir string) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := c.overlay("").CheckDiscovery(ctx); err != nil {
		return err
	}
	if err := c.checkUsers(filepath.Dir(dir)); err != nil {
		return err
	}
	mark, err := claimHost()
	if err != nil {
		return err
	}
	users, err := c.claimUsers(ctx, filepath.Dir(dir))
	if err != nil {
		return errors.Join(err, mark.Close())
	}
	h := newHost(c, dir)
	if h.containers.Program, err = os.Executable(); err != nil {
		return errors.Join(err, users.Close(), mark.Close())
	}
	lacks, why := map[string]bool{}, map[string]string{}
	for _, f := range h.examine(ctx) {
		switch f.State {
		case needs.Missing:
			lacks[f.Module] = true
			why[f.Module] = cmp.Or(why[f.Module], f.Need+": "+f.Detail)
			c.Log.WarnContext(ctx, "module disabled", "module", f.Module, "need", f.Need, "found", f.Detail,
				"fix", f.Fix)
		case needs.Degraded:
			c.Log.WarnContext(ctx, "module limited", "module", f.Module, "need", f.Need, "found", f.Detail, "so", f.Use,
				"fix", f.Fix)
		}
	}
	d.all = h.storage.drivers()
	d.services = append(d.services, h.overlay.Run)
	for _, one := range []struct {
		sal.Driver
		module, dir string
	}{
		{h.networks, "network", ""}, {h.databases, "herodb", h.databases.Dir}, {h.containers, "container", h.containers.Dir},
		{h.machines, "machine", h.machines.Dir},
	} {
		keeps := one.dir != "" && hasRecords(one.dir)
		if lacks[one.module] && !(keeps && one.module == "container") { // containerd may start after the node
			d.lacking = append(d.lacking,
				writ.NodeDriver{Module: one.module, Name: one.Describe().Name, Lacks: why[one.module]})
		}
		if keeps {
			lacks[one.module] = false
		}
		if !lacks[one.module] {
			d.all = append(d.all, one.Driver)
		}
	}
	if !lacks["container"] {
		d.services = append(d.services, h.containers.Run)
		h.storage.volumes.Users = append(h.storage.volumes.Users, h.containers)
		h.storage.images.Users = append(h.storage.images.Users, h.containers)
		h.machines.Others = []sal.Users{h.containers}
	}
	if !lacks["machine"] {
		h.withNetworks() // machines always need networks
		d.services = append(d.services, h.machines.Run)
		h.storage.volumes.Users = append(h.storage.volumes.Users, h.machines)
		h.storage.images.Users = append(h.storage.images.Users, h.machines)
		h.containers.Others = []sal.Users{h.machines}
	}
	d.close = func() error { return errors.Join(h.containers.Close(), users.Close(), mark.Close()) }
	return nil
}
