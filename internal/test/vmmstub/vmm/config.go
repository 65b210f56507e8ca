package vmm

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
)

// The configuration of a machine, as in vm.create, vm.info and snapshots. Sizes are in bytes. Parts without effect here
// are stored unchanged.

// vmConfig is the whole configuration.
type vmConfig struct {
	CPUs            cpusConfig      `json:"cpus"`
	Memory          memoryConfig    `json:"memory"`
	Payload         *payloadConfig  `json:"payload,omitempty"`
	RateLimitGroups []rateGroup     `json:"rate_limit_groups,omitempty"`
	Disks           []*diskConfig   `json:"disks,omitempty"`
	Net             []*netConfig    `json:"net,omitempty"`
	RNG             rngConfig       `json:"rng"`
	Balloon         *balloonConfig  `json:"balloon,omitempty"`
	Serial          serialConfig    `json:"serial"`
	Console         consoleConfig   `json:"console"`
	DebugConsole    json.RawMessage `json:"debug_console,omitempty"`
	Vsock           *vsockConfig    `json:"vsock,omitempty"`
	Pvpanic         bool            `json:"pvpanic"`
	IOMMU           bool            `json:"iommu"`
	Watchdog        bool            `json:"watchdog"`
	Platform        json.RawMessage `json:"platform,omitempty"`
	LandlockEnable  bool            `json:"landlock_enable"`
	LandlockRules   json.RawMessage `json:"landlock_rules,omitempty"`
}

func (c *vmConfig) UnmarshalJSON(text []byte) error {
	*c = vmConfig{
		CPUs:    cpusConfig{Boot: 1, Max: 1, PhysBits: 46, Nested: true, CoreScheduling: "Vm"},
		Memory:  memoryConfig{Size: 512 << 20, HotplugMethod: "Acpi", THP: true},
		RNG:     rngConfig{Src: "/dev/urandom"},
		Serial:  serialConfig{consoleCommon{Mode: "Null"}},
		Console: consoleConfig{consoleCommon: consoleCommon{Mode: "Tty"}},
	}
	return decode(text, c)
}

// clone returns a deep copy, for changes that may be rejected.
func (c *vmConfig) clone() *vmConfig {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	copied := &vmConfig{}
	if err := json.Unmarshal(text, copied); err != nil {
		panic(err)
	}
	return copied
}

type cpusConfig struct {
	Boot           uint32          `json:"boot_vcpus" need:"yes"`
	Max            uint32          `json:"max_vcpus" need:"yes"`
	Topology       json.RawMessage `json:"topology,omitempty"`
	HyperV         bool            `json:"kvm_hyperv"`
	PhysBits       uint8           `json:"max_phys_bits"`
	Affinity       json.RawMessage `json:"affinity,omitempty"`
	Features       json.RawMessage `json:"features,omitempty"`
	Nested         bool            `json:"nested"`
	CoreScheduling string          `json:"core_scheduling" oneof:"Vm Vcpu Off"`
}

func (c *cpusConfig) UnmarshalJSON(text []byte) error {
	*c = cpusConfig{PhysBits: 46, Nested: true, CoreScheduling: "Vm"}
	return decode(text, c)
}

type memoryConfig struct {
	Size           uint64          `json:"size" need:"yes"`
	HotplugMethod  string          `json:"hotplug_method" oneof:"Acpi VirtioMem"`
	HotplugSize    *uint64         `json:"hotplug_size,omitempty"`
	HotpluggedSize *uint64         `json:"hotplugged_size,omitempty"`
	Mergeable      bool            `json:"mergeable"`
	Shared         bool            `json:"shared"`
	Hugepages      bool            `json:"hugepages"`
	HugepageSize   *uint64         `json:"hugepage_size,omitempty"`
	Prefault       bool            `json:"prefault"`
	Reserve        bool            `json:"reserve"`
	THP            bool            `json:"thp"`
	Zones          json.RawMessage `json:"zones,omitempty"`
}

func (c *memoryConfig) UnmarshalJSON(text []byte) error {
	*c = memoryConfig{HotplugMethod: "Acpi", THP: true}
	return decode(text, c)
}

type payloadConfig struct {
	Firmware  *string `json:"firmware,omitempty"`
	Kernel    *string `json:"kernel,omitempty"`
	Cmdline   *string `json:"cmdline,omitempty"`
	Initramfs *string `json:"initramfs,omitempty"`
}

func (c *payloadConfig) UnmarshalJSON(text []byte) error {
	*c = payloadConfig{}
	return decode(text, c)
}

// pciCommon holds the fields of every device.
type pciCommon struct {
	ID       *string `json:"id,omitempty"`
	IOMMU    bool    `json:"iommu,omitempty"`
	Segment  uint16  `json:"pci_segment"`
	DeviceID *uint8  `json:"pci_device_id,omitempty"`
}

func (c *pciCommon) id() string {
	if c.ID == nil {
		return ""
	}
	return *c.ID
}

type diskConfig struct {
	pciCommon
	Path            *string         `json:"path,omitempty"`
	ReadOnly        bool            `json:"readonly"`
	Direct          bool            `json:"direct"`
	NumQueues       uint            `json:"num_queues"`
	QueueSize       uint16          `json:"queue_size"`
	VhostUser       bool            `json:"vhost_user"`
	VhostSocket     *string         `json:"vhost_socket,omitempty"`
	RateLimitGroup  *string         `json:"rate_limit_group,omitempty"`
	RateLimiter     json.RawMessage `json:"rate_limiter_config,omitempty"`
	Serial          *string         `json:"serial,omitempty"`
	QueueAffinity   json.RawMessage `json:"queue_affinity,omitempty"`
	BackingFiles    bool            `json:"backing_files"`
	Sparse          bool            `json:"sparse"`
	ImageType       string          `json:"image_type" oneof:"FixedVhd Qcow2 Raw Vhdx Unknown"`
	LockGranularity string          `json:"lock_granularity" oneof:"ByteRange Full"`
}

func (c *diskConfig) UnmarshalJSON(text []byte) error {
	*c = diskConfig{NumQueues: 1, QueueSize: 128, Sparse: true, ImageType: "Unknown", LockGranularity: "ByteRange"}
	return decode(text, c)
}

type netConfig struct {
	pciCommon
	Tap         *string         `json:"tap,omitempty"`
	IP          *string         `json:"ip,omitempty"`
	Mask        *string         `json:"mask,omitempty"`
	MAC         string          `json:"mac"`
	HostMAC     *string         `json:"host_mac,omitempty"`
	MTU         *uint16         `json:"mtu,omitempty"`
	NumQueues   uint            `json:"num_queues"`
	QueueSize   uint16          `json:"queue_size"`
	VhostUser   bool            `json:"vhost_user"`
	VhostSocket *string         `json:"vhost_socket,omitempty"`
	VhostMode   string          `json:"vhost_mode" oneof:"Client Server"`
	RateLimiter json.RawMessage `json:"rate_limiter_config,omitempty"`
	TSO         bool            `json:"offload_tso"`
	UFO         bool            `json:"offload_ufo"`
	Checksum    bool            `json:"offload_csum"`
}

func (c *netConfig) UnmarshalJSON(text []byte) error {
	*c = netConfig{NumQueues: 2, QueueSize: 256, VhostMode: "Client", TSO: true, UFO: true, Checksum: true}
	if err := decode(text, c); err != nil {
		return err
	}
	if c.MAC == "" {
		c.MAC = randomMAC()
	}
	if mac, err := net.ParseMAC(c.MAC); err != nil || len(mac) != 6 {
		return fmt.Errorf("invalid value: string %q, expected a MAC address", c.MAC)
	}
	return nil
}

// randomMAC returns a locally administered unicast address.
func randomMAC() string {
	mac := make(net.HardwareAddr, 6)
	_, _ = rand.Read(mac) // never fails
	mac[0] = mac[0]&^1 | 2
	return mac.String()
}

type rateGroup struct {
	ID          string          `json:"id" need:"yes"`
	RateLimiter json.RawMessage `json:"rate_limiter_config" need:"yes"`
}

func (c *rateGroup) UnmarshalJSON(text []byte) error {
	*c = rateGroup{}
	return decode(text, c)
}

type rngConfig struct {
	pciCommon
	Src string `json:"src" need:"yes"`
}

func (c *rngConfig) UnmarshalJSON(text []byte) error {
	*c = rngConfig{}
	return decode(text, c)
}

type balloonConfig struct {
	pciCommon
	Size              uint64 `json:"size" need:"yes"`
	DeflateOnOOM      bool   `json:"deflate_on_oom"`
	FreePageReporting bool   `json:"free_page_reporting"`
}

func (c *balloonConfig) UnmarshalJSON(text []byte) error {
	*c = balloonConfig{}
	return decode(text, c)
}

type vsockConfig struct {
	pciCommon
	CID    uint32 `json:"cid" need:"yes"`
	Socket string `json:"socket" need:"yes"`
}

func (c *vsockConfig) UnmarshalJSON(text []byte) error {
	*c = vsockConfig{}
	return decode(text, c)
}

type consoleCommon struct {
	File   *string `json:"file,omitempty"`
	Mode   string  `json:"mode" need:"yes" oneof:"Off Pty Tty File Socket Null"`
	Socket *string `json:"socket,omitempty"`
}

type serialConfig struct{ consoleCommon }

func (c *serialConfig) UnmarshalJSON(text []byte) error {
	*c = serialConfig{}
	return decode(text, c)
}

type consoleConfig struct {
	consoleCommon
	pciCommon
}

func (c *consoleConfig) UnmarshalJSON(text []byte) error {
	*c = consoleConfig{}
	return decode(text, c)
}
