package serve

import (
	"strings"

	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/daemon/runnerd"
)

// DriverFlags adds the flags that select and configure the drivers of a node.
func DriverFlags(c *cobra.Command, drivers *runnerd.Drivers, speed *float64, host *runnerd.HostConfig) {
	*drivers = runnerd.DriversAuto
	c.Flags().Var(drivers, "drivers",
		"auto: real drivers for volumes and images, the others simulated. simulated: no changes of the host. "+
			"host: only real drivers, which change network, containers and machines")
	c.Flags().Float64Var(speed, "simulate-speed", 1, "factor for the durations of simulated drivers. 0: at once")
	cli.InRange(c.Flags(), "simulate-speed", speed, 0, MostSpeed)
	c.Flags().BoolVar(&host.OverlayNoDiscovery, "overlay-no-discovery", false,
		"with --drivers host: mycelium peers with --overlay-peer only, not with daemons that it finds on the wire")
	c.Flags().StringSliceVar(&host.OverlayDiscoverOn, "overlay-discover-on", nil,
		"with --drivers host: interface on which mycelium searches for peers (repeatable). By default, on all interfaces. It needs mycelium 0.7.2")
	c.Flags().StringSliceVar(&host.OverlayPeers, "overlay-peer", nil,
		"with --drivers host: a peer of mycelium, such as tcp://192.0.2.7:9651 (TCP only)")
	c.Flags().StringVar(&host.Containerd, "containerd", "",
		"with --drivers host: socket of containerd, if not at its usual place")
	c.Flags().StringVar(&host.Firmware, "firmware", "", "with --drivers host: firmware of machines that have no kernel")
	c.Flags().Int64Var(&host.ProjectGiB, "project-disk", 0,
		"maximum GiB of a project's volumes and databases on the node. It needs btrfs. 0: unlimited")
	cli.InRange(c.Flags(), "project-disk", &host.ProjectGiB, 0, cli.Most)
	c.Flags().Int64Var(&host.ImageGiB, "image-disk", 0,
		"maximum GiB of fetched images on the node, and the same for images from registries. 0: a quarter of the disk")
	cli.InRange(c.Flags(), "image-disk", &host.ImageGiB, 0, cli.Most)
	c.Flags().StringVar(&host.ProcessUsers, "process-users", "", ProcessUsers)
	c.Flags().StringVar(&host.ContainerIDs, "container-ids", "", ContainerIDs)
	InitFlag(c, host)
	DeviceFlag(c, host)
	ImageFlags(c, host)
	EnginesFlag(c, host)
	NameserverFlag(c, host)
	cli.FromEnvironment(c.Flags(), "drivers", "simulate-speed", "overlay-peer", "containerd", "firmware", "project-disk",
		"image-disk",
		"process-users", "container-ids")
	cli.OneOf(c, "drivers", string(runnerd.DriversAuto), string(runnerd.DriversSimulated), string(runnerd.DriversHost))
}

// ImageFlags adds the flags for sources of images other than servers on the internet.
func ImageFlags(c *cobra.Command, host *runnerd.HostConfig) {
	c.Flags().StringSliceVar(&host.ImageDirs, "image-dir", nil,
		"directory whose files every project may use as images, by file:// URLs (repeatable). Without it no file is read")
	c.Flags().StringSliceVar(&host.Registries, "registry", nil,
		"with --drivers host: registry of container images that the node may use, with a mirror as in "+
			"ghcr.io=https://mirror.example (repeatable). none: no registry. "+
			"By default: "+strings.Join(runnerd.Registries(), ", "))
	c.Flags().StringSliceVar(&host.ImageAllow, "image-allow", nil,
		"range of private addresses, such as 10.1.0.0/16, that may serve images (repeatable). "+
			"Without it, images come from the "+
			"internet only")
	cli.FromEnvironment(c.Flags(), "image-dir", "image-allow", "registry")
}

// InitFlag adds the flag for the init program of containers.
func InitFlag(c *cobra.Command, host *runnerd.HostConfig) {
	c.Flags().StringVar(&host.ContainerInit, "container-init", "",
		"with --drivers host: static program that is the first process of containers with init. "+
			"By default: catatonit, tini-static or docker-init of a package")
	cli.FromEnvironment(c.Flags(), "container-init")
}

// DeviceFlag adds the flag for the devices of the host that containers may have.
func DeviceFlag(c *cobra.Command, host *runnerd.HostConfig) {
	c.Flags().StringSliceVar(&host.Devices, "device", nil,
		"device that every project may use in containers, by a name, such as kvm=/dev/kvm (repeatable). "+
			"With :r at the end, containers only read. By default: none")
	cli.FromEnvironment(c.Flags(), "device")
}

// NameserverFlag adds the flag for the nameservers of containers and machines.
func NameserverFlag(c *cobra.Command, host *runnerd.HostConfig) {
	c.Flags().StringSliceVar(&host.Nameservers, "nameserver", nil,
		"with --drivers host: nameserver for containers and machines whose networks reach it (repeatable). none: no nameserver. By default: the nameservers of the host")
	cli.FromEnvironment(c.Flags(), "nameserver")
}

// PublishFlag adds the flag for the ports that containers may publish. byDefault is its default.
func PublishFlag(c *cobra.Command, host *runnerd.HostConfig, byDefault string) {
	c.Flags().StringArrayVar(&host.Publish, "publish", []string{byDefault},
		"address of the node and the ports that containers may publish there, such as "+
			"192.0.2.10:80,443,8000-8999 (repeatable). none: no port")
	c.Flags().Lookup("publish").DefValue = byDefault
	cli.FromEnvironment(c.Flags(), "publish")
}

// Default addresses and ports that containers may publish. They are on loopback, so only programs on the node reach
// them. The ports of a development cluster include the ports that the examples use.
const (
	DefaultPublish    = "127.0.0.1:20000-20999"
	DefaultDevPublish = "127.0.0.1:8000-8999,20000-20999"
)

// EnginesFlag adds the flag for the engines of databases.
func EnginesFlag(c *cobra.Command, host *runnerd.HostConfig) {
	c.Flags().StringSliceVar(&host.Engines, "engines", nil,
		"with --drivers host: the engines of new databases, best first, such as valkey-server,redis-server. "+
			"By default: all installed engines that protect their secret. herodb and hero_redis reveal their secret to "+
			"all users of the host, so they must be named here")
	cli.FromEnvironment(c.Flags(), "engines")
	cli.Complete(c, "engines", runnerd.Engines()...)
}

// MostSpeed limits the factor of simulated durations, so that a duration of hours does not overflow.
const MostSpeed = 1_000_000

// ProcessUsers is the help text of the flag for the users of machine and database processes.
const ProcessUsers = "with --drivers host: range of unused user and group ids, such as 200000-265535. " +
	"The process of each machine and database gets one. " +
	"none: these processes run as the user of the runner. The default is a rarely used range if the runner is root"

// ContainerIDs is the help text of the flag for the user namespaces of containers.
const ContainerIDs = "with --drivers host: range of unused user and group ids, such as 2011000000-2056875199. " +
	"Each container gets 65536. " +
	"none: containers use the ids of the host. The default is a rarely used range if the host supports it"
