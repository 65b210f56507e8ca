package main

import (
	"context"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// The text screen of a machine and its memory in the hardware: one byte for each character, and one for its colour.
const (
	screenColumns = 80
	screenLines   = 25
	screenMemory  = 0xb8000
	screenSize    = 32 << 10 // several screens, through which the kernel scrolls
)

// screenText returns the content of the screen memory.
func (v *vm) screenText() string {
	v.t.Helper()
	file := filepath.Join(v.t.TempDir(), "screen")
	v.do("pmemsave", fmt.Sprintf(`{"val": %d, "size": %d, "filename": %q}`, screenMemory, screenSize, file))
	memory, err := os.ReadFile(file)
	if err != nil {
		v.t.Fatal(err)
	}
	text := make([]byte, len(memory)/2)
	for i := range text {
		text[i] = memory[2*i]
	}
	return string(text)
}

// isOnScreen reports whether the screen shows a complete page, from its first to its last line.
func (v *vm) isOnScreen(first, last string) bool {
	text := v.screenText()
	begins, ends := strings.LastIndex(text, "  "+first), strings.LastIndex(text, last)
	if begins < 0 || ends < begins {
		return false
	}
	if lines := (ends-begins)/screenColumns + 1; lines >= screenLines {
		v.t.Errorf("the page %q has %d lines", first, lines)
	}
	return true
}

// picture writes a screenshot to a file.
func (v *vm) picture(file string) {
	v.t.Helper()
	v.do("screendump", fmt.Sprintf(`{"filename": %q, "format": "png"}`, file))
	taken, err := os.Open(file)
	if err != nil {
		v.t.Fatal(err)
	}
	defer taken.Close()
	if shown, err := png.Decode(taken); err != nil || shown.Bounds().Dx() != 9*screenColumns || shown.Bounds().Dy() != 16*screenLines {
		v.t.Errorf("%s is not a picture of a screen with %d columns and %d lines: %v", file, screenColumns, screenLines, err)
	}
}

// The screen of a machine shows each page completely: the start and the wait for its network, a held machine, the wait
// for an approval, and a serving node. With WRIT_PICTURES=DIR, the pictures remain there: `task pictures:console` uses
// them for the manual.
func TestPicturesOfTheConsole(t *testing.T) {
	testenv.Nightly(t, "TestTheLongestPageFitsOnAScreen of package efi/boot and others there have the pages, and that their lines fit")
	testenv.Need(t, "redis-server")
	testenv.Need(t, "qemu-system-x86_64")
	kernel, stub := testenv.Kernel(t), testenv.Unpacked(t, testenv.EFIStub)
	if !testcluster.Alone(t, "") {
		return
	}
	dir := t.TempDir()
	if keep := os.Getenv("WRIT_PICTURES"); keep != "" {
		dir = keep
	}
	tap := newBridge(t, bootHost+"/24")
	s := testcluster.New(t, "WRIT_REDIS_LISTEN="+bootHost+":6379")
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: bootRedis(t), Listen: bootHost + ":7441"})
	token := strings.TrimSpace(s.Writ("token", "create", "--dc", "dc1"))
	image, disk := filepath.Join(t.TempDir(), "node.efi"), newDisk(t, 512, "mkfs.btrfs", "-q", "-L", "writ-data")
	s.Writ("efi", "build", "--kernel", kernel.Image, "--modules", kernel.Modules, "--stub", stub, "--program", staticWrit(t, "-X main.release=v1.0.0"), "--image", image)
	words := "console=tty0 " + bootWords + "vt.global_cursor_default=0 writ.data=writ-data writ.cluster=" + strings.Split(token, ".")[3] +
		" writ.supervisor=https://" + bootHost + ":7441 writ.redis=rediss://" + bootHost + ":6379/0"
	v := startQEMU(t, "-device", "VGA", "-kernel", kernel.Image, "-initrd", initrdOf(t, image), "-append", words,
		"-netdev", "tap,id=n0,script=no,downscript=no,ifname="+tap, "-device", "virtio-net-pci,netdev=n0,romfile=,mac="+bootMAC,
		"-drive", "if=none,id=d1,format=raw,file="+disk, "-device", "virtio-blk-pci,drive=d1")
	v.await("] start ")
	take := func(name, first, last string) {
		t.Helper()
		s.Until("the screen has the page "+name, func(context.Context) bool { return v.isOnScreen(first, last) })
		v.picture(filepath.Join(dir, "console-"+name+".png"))
	}

	take("start", "This machine is starting and is not a node yet.", "until an admin approves it")
	take("held", "This machine is held at network", "  goes on ")
	serveDHCP(t)
	name, fingerprint := v.awaitApproval()
	take("pending", "This machine waits for approval as a node.", "Then it continues by itself.")
	s.Writ("node", "approve", name, fingerprint)
	v.await("This machine serves as a node.")
	take("serving", "This machine serves as a node.", "For more: writ node show")
	v.pressPower()
}
