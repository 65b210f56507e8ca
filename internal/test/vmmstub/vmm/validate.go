package vmm

import (
	"math/bits"
	"slices"
	"strings"
)

// Limits of the real program.
const (
	maxCPUs       = 8192
	maxQueueSize  = 1024
	minBlockQueue = 2
	minMTU        = 1280
	maxDiskSerial = 20
	maxPCIDevices = 32
	dimmMultiple  = 128 << 20 // bytes
	maxDIMMs      = 8
)

// validate checks a configuration for vm.boot and hot-plug requests; vm.create does not check its configuration.
func (c *vmConfig) validate(release Release) error {
	if err := c.Payload.validate(); err != nil {
		return err
	}
	for _, console := range []consoleCommon{c.Console.consoleCommon, c.Serial.consoleCommon} {
		if console.Mode == "File" && console.File == nil {
			return invalid("Path missing when using file console mode")
		}
	}
	switch {
	case c.CPUs.Max < c.CPUs.Boot:
		return invalid("Max CPUs (%d) lower than boot CPUs (%d)", c.CPUs.Max, c.CPUs.Boot)
	case c.CPUs.Max > maxCPUs:
		return invalid("Too many CPUs: specified %d but %d is the limit", c.CPUs.Max, maxCPUs)
	case c.Memory.Shared && c.Memory.Mergeable:
		return invalid("Invalid to set both 'mergeable' and 'shared' for memory")
	case c.Memory.HugepageSize != nil && !c.Memory.Hugepages:
		return invalid("Huge page size specified but huge pages not enabled")
	case c.Balloon != nil && c.Balloon.Size >= c.Memory.total():
		return invalid("Balloon size (%d) greater than RAM (%d)", c.Balloon.Size, c.Memory.total())
	case c.Vsock != nil && (c.Vsock.CID <= 2 || c.Vsock.CID == ^uint32(0)):
		return invalid("%d is a special VSOCK CID", c.Vsock.CID)
	}
	for _, d := range c.Disks {
		if err := d.validate(c); err != nil {
			return err
		}
	}
	for _, n := range c.Net {
		if err := n.validate(c); err != nil {
			return err
		}
	}
	return validateIDs(release, c.ids())
}

func (p *payloadConfig) validate() error {
	switch {
	case p == nil || p.Firmware == nil && p.Kernel == nil:
		return misfit("Payload configuration is not bootable", "No bootitem provided: neither firmware nor kernel")
	case p.Firmware != nil && p.Kernel != nil:
		return misfit("Payload configuration is not bootable",
			"Specifying a kernel is not supported when a firmware is provided")
	case p.Firmware != nil:
		p.Cmdline, p.Initramfs = nil, nil // the real program only warns that it ignores them
	}
	return nil
}

func (d *diskConfig) validate(c *vmConfig) error {
	switch {
	case d.Path != nil && d.VhostSocket != nil:
		return invalid("Disk path and vhost socket both provided")
	case d.VhostUser && !c.Memory.Shared && !c.Memory.Hugepages:
		return invalid("Using vhost-user requires using shared memory or huge pages")
	case d.VhostUser && d.VhostSocket == nil:
		return invalid("No socket provided when using vhost-user")
	case d.RateLimitGroup != nil &&
		!slices.ContainsFunc(c.RateLimitGroups, func(g rateGroup) bool { return g.ID == *d.RateLimitGroup }):
		return invalid("Invalid rate-limiter group")
	case d.NumQueues > uint(c.CPUs.Boot):
		return invalid("Queue count (%d) must not exceed boot vCPUs (%d)", d.NumQueues, c.CPUs.Boot)
	case d.QueueSize <= minBlockQueue:
		return invalid("Block queue size must be greater than %d: %d", minBlockQueue, d.QueueSize)
	case d.Serial != nil && len(*d.Serial) > maxDiskSerial:
		return invalid("Block device serial length (%d) exceeds maximum allowed length (%d)", len(*d.Serial), maxDiskSerial)
	}
	return validateQueueSize(d.QueueSize)
}

func (n *netConfig) validate(c *vmConfig) error {
	switch {
	case n.VhostUser && !c.Memory.Shared && !c.Memory.Hugepages:
		return invalid("Using vhost-user requires using shared memory or huge pages")
	case n.VhostUser && n.VhostSocket == nil:
		return invalid("No socket provided when using vhost-user")
	case n.NumQueues < 2:
		return invalid("Number of queues (%d) to virtio_net should be higher than 2", n.NumQueues)
	case n.NumQueues/2 > uint(c.CPUs.Boot):
		return invalid("Queue count (%d) must not exceed boot vCPUs (%d)", n.NumQueues/2, c.CPUs.Boot)
	case n.MTU != nil && *n.MTU < minMTU:
		return invalid("Provided MTU %d is lower than %d (expected by VIRTIO specification)", *n.MTU, minMTU)
	case (n.TSO || n.UFO) && !n.Checksum:
		return invalid(`"offload_tso" and "offload_ufo" depend on "offload_csum"`)
	case n.IP == nil && n.Mask != nil:
		return invalid("Mask provided without an IP")
	case n.IP != nil && n.Mask == nil:
		return invalid("IP provided without a mask")
	}
	return validateQueueSize(n.QueueSize)
}

func validateQueueSize(size uint16) error {
	if bits.OnesCount16(size) != 1 || size > maxQueueSize {
		return invalid("Queue size must be a power of 2 no greater than %d: %d", maxQueueSize, size)
	}
	return nil
}

// ids returns the given device IDs, unordered and with duplicates.
func (c *vmConfig) ids() []string {
	var ids []string
	for _, g := range c.RateLimitGroups {
		ids = append(ids, g.ID)
	}
	for _, p := range c.devices() {
		if p.ID != nil {
			ids = append(ids, *p.ID)
		}
	}
	return ids
}

// devices returns the common parts of all devices.
func (c *vmConfig) devices() []*pciCommon {
	all := []*pciCommon{&c.Console.pciCommon, &c.RNG.pciCommon}
	for _, d := range c.Disks {
		all = append(all, &d.pciCommon)
	}
	for _, n := range c.Net {
		all = append(all, &n.pciCommon)
	}
	if c.Balloon != nil {
		all = append(all, &c.Balloon.pciCommon)
	}
	if c.Vsock != nil {
		all = append(all, &c.Vsock.pciCommon)
	}
	return all
}

func validateIDs(release Release, ids []string) error {
	seen := map[string]bool{}
	for _, id := range ids {
		if strings.HasPrefix(id, "__") {
			if release < V54 {
				return invalid("Identifier %s is not invalid", id) // sic
			}
			return invalid("Identifier %s is not valid", id)
		}
		if seen[id] {
			return graded{chain{"Failed to validate config", "Identifier " + id + " is not unique"}, 409}
		}
		seen[id] = true
	}
	return nil
}

// total returns the memory, including hot-plugged memory.
func (m *memoryConfig) total() uint64 {
	if m.HotpluggedSize == nil {
		return m.Size
	}
	return m.Size + *m.HotpluggedSize
}
