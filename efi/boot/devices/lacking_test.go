package devices

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestDevicesWithoutADriverAreNamed(t *testing.T) {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	const pci, virtio = "bus/pci/devices/0000:00:0", "bus/virtio/devices/virtio"
	sys := fstest.MapFS{
		pci + "1.0/class": text("0x020000"), pci + "1.0/vendor": text("0x8086"), pci + "1.0/device": text("0x100e"),
		pci + "2.0/class": text("0x020000"), pci + "2.0/vendor": text("0x1af4"), pci + "2.0/device": text("0x1000"), pci + "2.0/driver/bind": text(""),
		pci + "3.0/class": text("0x010802"), pci + "3.0/vendor": text("0x1b36"), pci + "3.0/device": text("0x0010"),
		pci + "4.0/class": text("0x030000"), pci + "4.0/vendor": text("0x1234"), pci + "4.0/device": text("0x1111"),
		virtio + "0/modalias": text("virtio:d00000001v00001AF4"), virtio + "0/vendor": text("0x1af4"), virtio + "0/device": text("0x0001"),
		virtio + "1/modalias": text("virtio:d00000002v00001AF4"), virtio + "1/vendor": text("0x1af4"), virtio + "1/device": text("0x0002"), virtio + "1/driver/bind": text(""),
	}
	for _, tt := range []struct {
		class Class
		want  []string
	}{
		{NetworkCards, []string{"the network card 8086:100e (0000:00:01.0) has no driver", "the network card 1af4:0001 (virtio0) has no driver"}},
		{DiskControllers, []string{"the disk controller 1b36:0010 (0000:00:03.0) has no driver"}},
	} {
		if got := undriven(sys, tt.class); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.class.name, got, tt.want)
		}
	}
	if got := undriven(fstest.MapFS{}, NetworkCards); got != nil {
		t.Errorf("without a bus: %q", got)
	}
}

func TestFirmwareThatTheKernelDoesNotFindIsNamed(t *testing.T) {
	const log = "6,900,2310,-;bnx2x 0000:01:00.0: firmware: failed to load bnx2x/bnx2x-e2-7.13.21.0.fw (-2)\n" +
		"4,901,2311,-;bnx2x 0000:01:00.1: firmware: failed to load bnx2x/bnx2x-e2-7.13.21.0.fw (-2)\n" +
		"4,902,2312,-;r8169 0000:02:00.0: Direct firmware load for rtl_nic/rtl8125b-2.fw failed with error -2\n" +
		"6,903,2313,-;x 0000:02:00.0: firmware: direct-loading firmware qed/qed.bin\n"
	if got, want := missingFirmware(log), []string{"bnx2x/bnx2x-e2-7.13.21.0.fw", "rtl_nic/rtl8125b-2.fw"}; !slices.Equal(got, want) {
		t.Errorf("missing are %q, want %q", got, want)
	}
	if got := lacking(fstest.MapFS{}, log, NetworkCards); got != "the image lacks the firmware bnx2x/bnx2x-e2-7.13.21.0.fw rtl_nic/rtl8125b-2.fw" {
		t.Errorf("it lacks %s", got)
	}
	if got := lacking(fstest.MapFS{}, "", NetworkCards); got != "" {
		t.Errorf("it lacks %s", got)
	}
}
