// Package image makes the image that a node starts from: a kernel, the modules that machines need, and writ as the first process and the only
// program. Everything is in one file that runs from memory, and equal inputs make equal bytes. It knows what is in an image; it must not know
// where a kernel comes from, nor how an image reaches a machine.
package image

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"writ"
	"writ/efi/boot"
	"writ/efi/cpio"
	"writ/efi/modules"
	"writ/efi/uki"
)

// DefaultCmdline is what the kernel is told if the firmware passes nothing: to speak on screen and serial line, to say no more than errors, as the
// first process reports the rest, and to start again a minute after it has stopped with an error.
const DefaultCmdline = "console=tty0 console=ttyS0,115200 quiet panic=60"

// Recipe is what an image is made of.
type Recipe struct {
	Stub     []byte // systemd's linuxx64.efi.stub
	Kernel   []byte
	Modules  fs.FS    // the directory lib/modules/VERSION of that kernel
	Names    []string // of modules to take besides the usual ones, and to load at the start; each with what it needs
	Program  []byte   // writ, linked statically
	Cmdline  string
	Settings []string // words "writ.NAME=VALUE" for every machine that starts from the image
}

// Image is what was made.
type Image struct {
	Data    []byte
	Kernel  string   // its version
	Version string   // made of the content of all files
	Files   []File   // in memory after the start, by name
	Lacking []string // names of usual modules that the kernel has not
	Packed  int      // bytes of the files as they are in the image
	// Firmware are names of files that modules of the image may ask for. It has none of them.
	Firmware []string
}

// File is a file of an image.
type File struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

// Digest is the SHA-256 of the image, in hex.
func (i *Image) Digest() string { return digest(i.Data) }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// usual are the modules that an image has if its kernel has them: devices of the usual hypervisors and clouds, then what drivers of a node use.
// The kernel asks for most of the second kind when they are used.
var usual = struct{ devices, drivers []string }{
	devices: []string{
		"virtio_pci", "virtio_mmio", "virtio_net", "virtio_blk", "virtio_scsi", "virtio_console", "virtio_rng", "virtio_balloon",
		"ena", "gve", "hv_netvsc", "hv_storvsc", "hv_utils", "vmxnet3", "vmw_pvscsi", "xen_netfront", "xen_blkfront", "ixgbevf", "iavf", "mlx4_en", "mlx5_core",
		"nvme", "sd_mod", "button", "evdev",
		// Physical machines; the kernel for clouds has none of these.
		"e1000", "e1000e", "igb", "igc", "ixgbe", "i40e", "ice", "bnxt_en", "bnx2", "bnx2x", "tg3", "r8169", "qede", "cxgb4", "sfc", "be2net", "enic", "atlantic",
		"ahci", "megaraid_sas", "mpt3sas", "smartpqi", "hpsa", "aacraid", "xhci_pci", "ehci_pci", "usb_storage", "uas", "usbhid", "hid_generic", "atkbd", "i8042",
	},
	drivers: []string{
		"efivarfs", "vfat", "nls_ascii", "nls_cp437", "btrfs", "ext4", "overlay", "loop",
		"tun", "bridge", "veth", "vhost_net", "kvm_intel", "kvm_amd",
		"nf_tables", "nft_ct", "nft_chain_nat", "nft_nat", "nft_masq", "nft_limit", "nft_reject_inet", "nft_fib_inet",
	},
}

// atStart are those that are loaded at the start: programs look for their devices, and the kernel would not be asked for them.
var atStart = []string{"loop", "tun", "vhost_net"}

// Build makes the image.
func (r *Recipe) Build() (*Image, error) {
	image := &Image{}
	var err error
	if image.Kernel, err = uki.KernelVersion(r.Kernel); err != nil {
		return nil, err
	}
	if err := checkProgram(r.Program); err != nil {
		return nil, err
	}
	var settings boot.Config
	if err := settings.Read(strings.Join(r.Settings, " ")); err != nil {
		return nil, err
	}
	if settings.Join != "" {
		return nil, writ.Errorf(writ.CodeUsage, "writ.join has no place in an image: a token admits one node, and an image is read by many").
			WithHint("give it to the machine, on the command line of the kernel or in a credential")
	}
	archive := &files{image: image}
	if err := r.base(archive); err != nil {
		return nil, err
	}
	if err := r.modules(archive); err != nil {
		return nil, err
	}
	initrd, err := archive.packed()
	if err != nil {
		return nil, err
	}
	image.Packed = len(initrd)
	image.Version = digest(initrd)[:16]
	image.Data, err = uki.Build(uki.Parts{
		Stub: r.Stub, Kernel: r.Kernel, Initrd: initrd, Cmdline: r.Cmdline,
		OSRelease: osRelease + "IMAGE_VERSION=" + image.Version + "\nVERSION_ID=" + image.Kernel + "\n",
	})
	return image, err
}

const osRelease = "ID=writ\nNAME=writ\nPRETTY_NAME=\"writ node\"\nIMAGE_ID=writ-node\n"

// checkProgram refuses a program that needs libraries: the image has none.
func checkProgram(program []byte) error {
	file, err := elf.NewFile(bytes.NewReader(program))
	const how = "build one with CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go build -trimpath -ldflags '-s -w' -o writ-node ./cmd/writ, and name it with --program"
	switch {
	case err != nil:
		return writ.Errorf(writ.CodeUsage, "the program is none for Linux: %v", err).WithHint(how)
	case file.Machine != elf.EM_X86_64 || file.Type != elf.ET_EXEC && file.Type != elf.ET_DYN:
		return writ.Errorf(writ.CodeUsage, "the program is not for amd64").WithHint(how)
	case slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }):
		return writ.Errorf(writ.CodeUsage, "the program needs libraries, which an image does not have").WithHint(how)
	}
	return nil
}

// files are those of an image, being put into an archive.
type files struct {
	image   *Image
	archive cpio.Archive
	failed  error
}

func (f *files) file(name string, perm fs.FileMode, data []byte) {
	if f.failed == nil {
		f.failed = f.archive.File(name, perm, data)
	}
	f.image.Files = append(f.image.Files, File{name, len(data)})
}

func (f *files) text(name string, lines ...string) {
	text := strings.Join(lines, "\n")
	if text != "" {
		text += "\n"
	}
	f.file(name, 0o644, []byte(text))
}

// packed returns the archive as the kernel unpacks it.
func (f *files) packed() ([]byte, error) {
	if f.failed != nil {
		return nil, f.failed
	}
	slices.SortFunc(f.image.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	// With one worker the bytes do not depend on the machine.
	z, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	if _, err := f.archive.WriteTo(z); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// inside is the name of a file in an archive: names begin at the root.
func inside(name string) string { return strings.TrimPrefix(name, "/") }

// base adds what does not depend on the kernel.
func (r *Recipe) base(f *files) error {
	for _, dir := range []string{"proc", "sys", "dev", "run", "tmp", "root", "mnt", "var/tmp", inside(path.Dir(boot.DataAt))} {
		if err := f.archive.Dir(dir, 0o755); err != nil {
			return err
		}
	}
	f.file(inside(boot.Program), 0o755, r.Program)
	f.text("etc/passwd", "root:x:0:0:root:/root:/sbin/nologin", "nobody:x:65534:65534:nobody:/:/sbin/nologin")
	f.text("etc/group", "root:x:0:", "nogroup:x:65534:")
	f.text("etc/hosts", "127.0.0.1 localhost", "::1 localhost")
	f.text("etc/os-release", strings.TrimSuffix(osRelease, "\n"))
	f.text(inside(boot.SettingsAt), r.Settings...)
	if err := f.archive.Symlink(inside(boot.ModprobeAt), boot.Program); err != nil {
		return err
	}
	return f.archive.Symlink("init", inside(boot.Program))
}

// modules adds those of the recipe.
func (r *Recipe) modules(f *files) error {
	index, err := modules.Scan(r.Modules)
	if err != nil {
		return err
	}
	wanted := slices.Clone(r.Names)
	has := func(name string) bool {
		found, builtin := index.Find(name)
		return len(found) > 0 || builtin
	}
	for _, name := range slices.Concat(usual.devices, usual.drivers) {
		if has(name) {
			wanted = append(wanted, name)
		} else {
			f.image.Lacking = append(f.image.Lacking, name)
		}
	}
	all, err := index.Closure(wanted...)
	if err != nil {
		return err
	}
	dir := path.Join(inside(boot.ModulesAt), f.image.Kernel)
	for _, m := range all {
		object, err := index.Object(m)
		if err != nil {
			return fmt.Errorf("read the module %s: %w", m.Name, err)
		}
		f.file(path.Join(dir, m.Path), 0o644, object)
		f.image.Firmware = append(f.image.Firmware, m.Firmware...)
	}
	slices.Sort(f.image.Firmware)
	f.image.Firmware = slices.Compact(f.image.Firmware)
	for name, text := range index.Lists(all) {
		f.file(path.Join(dir, name), 0o644, text)
	}
	f.text(inside(boot.LoadAt), slices.Concat(slices.DeleteFunc(slices.Clone(atStart), func(name string) bool { return !has(name) }), r.Names)...)
	return nil
}
