package devices

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"writ/efi/modules"
)

// A bus exposes its devices only after its driver is loaded, for example one with a network card behind it.
func TestDevicesThatAppearWithADriverGetTheirs(t *testing.T) {
	lists := fstest.MapFS{
		"modules.builtin": {},
		"modules.dep":     {Data: []byte("virtio_pci.ko: virtio.ko\nvirtio.ko:\nvirtio_net.ko: virtio.ko\nbroken.ko:\nloop.ko:\n")},
		"modules.alias":   {Data: []byte("alias pci:v00001AF4d* virtio_pci\nalias virtio:d00000001v* virtio_net\nalias acpi:BAD:* broken\n")},
		"modules.softdep": {},
	}
	index, err := modules.Open(lists)
	if err != nil {
		t.Fatal(err)
	}
	devices := fstest.MapFS{
		"pci0/00:01.0/modalias": {Data: []byte("pci:v00001AF4d00001041\n")},
		"pci0/00:02.0/modalias": {Data: []byte("pci:v00008086d00001234\n")},
		"bad/modalias":          {Data: []byte("acpi:BAD:\n")},
		"empty/modalias":        {Data: []byte("\n")},
	}
	var loaded []string
	l := &Loader{index: index, devices: devices, tried: map[string]bool{}, load: func(m *modules.Module) error {
		if m.Name == "broken" {
			return errors.New("no such device")
		}
		loaded = append(loaded, m.Name)
		if m.Name == "virtio_pci" {
			devices["pci0/00:01.0/virtio0/modalias"] = &fstest.MapFile{Data: []byte("virtio:d00000001v00001AF4\n")}
		}
		return nil
	}}
	if n, err := l.Named([]string{"loop", "not_in_the_image"}); n != 1 || err != nil {
		t.Errorf("by name %d are loaded, %v", n, err)
	}
	n, err := l.All()
	if got := strings.Join(loaded, " "); n != 3 || got != "loop virtio virtio_pci virtio_net" {
		t.Errorf("%d are loaded: %s", n, got)
	}
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("the error does not name the broken module: %v", err)
	}
	if n, err := l.All(); n != 0 || err != nil {
		t.Errorf("a second time %d are loaded, %v", n, err)
	}
}
