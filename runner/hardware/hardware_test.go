package hardware_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/runner/hardware"
	"writ/supervisor/nodes"
)

// tree makes a directory with files, and with links for texts that begin with "→".
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		at := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if target, link := strings.CutPrefix(text, "→"); err == nil && link {
			err = os.Symlink(target, at)
		} else if err == nil {
			err = os.WriteFile(at, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// server returns the files of a physical machine with an NVMe disk, a SATA disk and two network interfaces.
func server() map[string]string {
	const pci = "sys/devices/pci0000:00/"
	return map[string]string{
		"etc/os-release":                  "NAME=writ\nPRETTY_NAME=\"writ node\"\nIMAGE_ID=writ-node\nIMAGE_VERSION=0a1b2c3d4e5f6071\n",
		"proc/sys/kernel/osrelease":       "6.1.0-56-amd64\n",
		"proc/cpuinfo":                    "processor\t: 0\nmodel name\t: AMD EPYC 7302P 16-Core Processor\nflags\t\t: fpu\n\nprocessor\t: 1\nmodel name\t: AMD EPYC 7302P 16-Core Processor\n",
		"proc/meminfo":                    "MemTotal:       131893224 kB\nMemFree:        1 kB\n",
		"proc/stat":                       "cpu  1 2 3\nbtime 1764140400\nprocesses 5\n",
		"proc/self/mountinfo":             "22 1 0:30 / / rw - tmpfs tmpfs rw\n30 22 0:41 /x /var/lib/writ/node/volumes/v1 rw - btrfs /dev/nvme0n1p2 rw\n31 22 0:41 / /var/lib/writ rw - btrfs /dev/nvme0n1p2 rw\n32 22 259:1 / /efi ro - vfat /dev/nvme0n1p1 ro\nnonsense\n",
		"sys/class/dmi/id/sys_vendor":     "Supermicro\n",
		"sys/class/dmi/id/product_name":   "AS -1114S-WTRT\n",
		"sys/class/dmi/id/product_serial": "To be filled by O.E.M.\n",

		"sys/block/nvme0n1":                            "→../devices/pci0000:00/nvme/nvme0/nvme0n1",
		pci + "nvme/nvme0/model":                       "SAMSUNG MZQL2960HCJR-00A07              \n",
		pci + "nvme/nvme0/serial":                      "S64FNT0W100001\n",
		pci + "nvme/nvme0/nvme0n1/device":              "→..",
		pci + "nvme/nvme0/nvme0n1/size":                "1875385008\n",
		pci + "nvme/nvme0/nvme0n1/dev":                 "259:0\n",
		pci + "nvme/nvme0/nvme0n1/queue/rotational":    "0\n",
		pci + "nvme/nvme0/nvme0n1/nvme0n1p1/partition": "1\n",
		pci + "nvme/nvme0/nvme0n1/nvme0n1p1/size":      "204800\n",
		pci + "nvme/nvme0/nvme0n1/nvme0n1p1/dev":       "259:1\n",
		pci + "nvme/nvme0/nvme0n1/nvme0n1p1/uevent":    "MAJOR=259\nPARTNAME=EFI system\n",
		pci + "nvme/nvme0/nvme0n1/nvme0n1p2/partition": "2\n",
		pci + "nvme/nvme0/nvme0n1/nvme0n1p2/size":      "1000000000\n",
		pci + "nvme/nvme0/nvme0n1/nvme0n1p2/dev":       "259:2\n",
		"dev/disk/by-label/writ\\x20data":              "→../../nvme0n1p2",
		"sys/block/sda":                                "→../devices/pci0000:00/ata1/sda",
		pci + "ata1/sda/size":                          "7814037168\n",
		pci + "ata1/sda/dev":                           "8:0\n",
		pci + "ata1/sda/queue/rotational":              "1\n",
		pci + "ata1/sda/device/model":                  "ST4000NM000A-2HZ\n",
		pci + "ata1/sda/device/vpd_pg80":               "\x00\x80\x00\x14WS20ABCD            ",
		"sys/block/loop0/size":                         "100\n",
		"sys/block/dm-0/size":                          "100\n",
		"sys/block/sr0/size":                           "2097151\n",
		"sys/block/sdb/size":                           "0\n", // a card reader without a card

		"sys/class/net/eth0":                  "→../../devices/pci0000:00/0000:00:03.0/net/eth0",
		pci + "0000:00:03.0/net/eth0/device":  "→../..",
		pci + "0000:00:03.0/net/eth0/address": "3c:ec:ef:00:00:01\n",
		pci + "0000:00:03.0/net/eth0/carrier": "1\n",
		pci + "0000:00:03.0/net/eth0/speed":   "10000\n",
		pci + "0000:00:03.0/driver":           "→../../../bus/pci/drivers/ixgbe",
		"sys/class/net/eth1":                  "→../../devices/pci0000:00/0000:00:04.0/net/eth1",
		pci + "0000:00:04.0/net/eth1/device":  "→../..",
		pci + "0000:00:04.0/net/eth1/address": "3c:ec:ef:00:00:02\n",
		pci + "0000:00:04.0/net/eth1/speed":   "-1\n", // no carrier, and the file carrier is unreadable
		"sys/class/net/eth0.7/uevent":         "DEVTYPE=vlan\nINTERFACE=eth0.7\n",
		"sys/class/net/eth0.7/carrier":        "1\n",
		"sys/class/net/lo/address":            "00:00:00:00:00:00\n",
		"sys/class/net/wt-0a1b/uevent":        "INTERFACE=wt-0a1b\n", // the port of a machine
		"sys/class/net/wt-0a1b/address":       "02:00:00:00:00:01\n",
		"sys/class/net/bonding_masters":       "\n",
	}
}

func TestAMachineIsReadFromTheFilesOfItsKernel(t *testing.T) {
	addresses := func(name string) []netip.Prefix {
		if name != "eth0" {
			return nil
		}
		return []netip.Prefix{netip.MustParsePrefix("10.77.0.4/24"), netip.MustParsePrefix("fd77::4/64")}
	}
	got := hardware.Machine{Root: os.DirFS(tree(t, server())), Addresses: addresses}.Host()
	want := writ.Host{
		OS: "writ node", Image: "0a1b2c3d4e5f6071", Kernel: "6.1.0-56-amd64", Vendor: "Supermicro", Product: "AS -1114S-WTRT",
		CPU: "AMD EPYC 7302P 16-Core Processor", MemoryMiB: 128801, Booted: time.Unix(1764140400, 0).UTC(),
		Disks: []writ.HostDisk{
			{Name: "nvme0n1", Bytes: 960197124096, Model: "SAMSUNG MZQL2960HCJR-00A07", Serial: "S64FNT0W100001", Parts: []writ.HostPart{
				{Name: "nvme0n1p1", Bytes: 100 << 20, Label: "EFI system", Mounted: "/efi"},
				{Name: "nvme0n1p2", Bytes: 512000000000, Label: "writ data", Mounted: "/var/lib/writ"},
			}},
			{Name: "sda", Bytes: 4000787030016, Model: "ST4000NM000A-2HZ", Serial: "WS20ABCD", Rotational: true},
		},
		NICs: []writ.HostNIC{
			{Name: "eth0", MAC: "3c:ec:ef:00:00:01", Driver: "ixgbe", SpeedMbit: 10000, Carrier: true, Addresses: []string{"10.77.0.4/24", "fd77::4/64"}},
			{Name: "eth0.7", Driver: "vlan", Carrier: true},
			{Name: "eth1", MAC: "3c:ec:ef:00:00:02"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAMachineWithoutFirmwareDataIsReported(t *testing.T) {
	if diff := cmp.Diff(writ.Host{}, hardware.Machine{Root: os.DirFS(t.TempDir())}.Host()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	another := map[string]string{"usr/lib/os-release": "PRETTY_NAME='Other Linux 7'\nIMAGE_ID=other\nIMAGE_VERSION=7\n", "proc/stat": "btime x\n", "proc/meminfo": "MemTotal: many\n"}
	if diff := cmp.Diff(writ.Host{OS: "Other Linux 7"}, hardware.Machine{Root: os.DirFS(tree(t, another))}.Host()); diff != "" {
		t.Errorf("of another system's image (-want +got):\n%s", diff)
	}
}

func TestFactsOfAMachineAreBounded(t *testing.T) {
	files := map[string]string{
		"sys/class/dmi/id/sys_vendor": "\x1b]0;owned\a" + strings.Repeat("ä", 500), "proc/cpuinfo": strings.Repeat("x", 1<<20) + "\nmodel name: late\n",
	}
	for i := range 200 {
		name := strings.Repeat("a", i%26+1) + string(rune('a'+i/26))
		files["sys/block/"+name+"/size"] = "8"
		files["sys/block/"+name+"/"+name+"1/partition"] = "1"
		files["sys/block/"+name+"/"+name+"2/partition"] = "2"
		files["sys/block/"+name+"/"+name+"3/partition"] = "3"
		files["sys/class/net/"+name+"/device/x"] = ""
	}
	h := hardware.Machine{Root: os.DirFS(tree(t, files)), Addresses: func(string) []netip.Prefix {
		return make([]netip.Prefix, 100)
	}}.Host()
	parts := 0
	for _, d := range h.Disks {
		parts += len(d.Parts)
	}
	if len(h.Disks) != nodes.MaxDisks || parts != nodes.MaxParts || len(h.NICs) != nodes.MaxNICs || len(h.NICs[0].Addresses) != nodes.MaxAddresses || h.CPU != "" {
		t.Errorf("%d disks with %d parts, %d cards with %d addresses, the processor %.10q", len(h.Disks), parts, len(h.NICs), len(h.NICs[0].Addresses), h.CPU)
	}
	if len(h.Vendor) > nodes.MaxHostWord || !strings.HasPrefix(h.Vendor, "]0;owned ä") || strings.ContainsAny(h.Vendor, "\x1b\a") {
		t.Errorf("the vendor is %q", h.Vendor)
	}
}

func TestThisMachineIsRead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nodes run Linux")
	}
	if h := hardware.Here().Host(); h.Kernel == "" || h.MemoryMiB == 0 || h.Booted.IsZero() || h.Booted.After(time.Now()) {
		t.Errorf("this machine is %+v", h)
	}
}
