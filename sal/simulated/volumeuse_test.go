package simulated

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"writ"
	"writ/sal/saltest"
)

// The simulated drivers refuse a shared disk like the real ones.
func TestMachineNeedsItsVolumesAlone(t *testing.T) {
	dir := t.TempDir()
	machines, containers := open(t, Config{Module: "machine", Dir: dir}), open(t, Config{Module: "container", Dir: dir})
	root, shared := saltest.RefTo(writ.KindVolume, "root"), saltest.RefTo(writ.KindVolume, "shared")
	disks := func(all ...any) map[string]any { return values(machineSpec, "networks", []any{}, "disks", all) }
	mounts := func(volume any) map[string]any {
		return values(containerSpec, "volumes", []any{map[string]any{"volume": volume, "path": "/v"}})
	}
	refuses := func(d *Driver, operation, name string, args map[string]any, want writ.Code, text string) {
		t.Helper()
		if _, err := do(t, t.Context(), d, operation, name, args); writ.CodeOf(err) != want || !strings.Contains(err.Error(), text) {
			t.Errorf("%s of %s: %v, want %s with %q", operation, name, err, want, text)
		}
	}

	must(t, machines, "machine.create", "a", disks(root))
	must(t, machines, "machine.create", "a", disks(root)) // unchanged
	refuses(machines, "machine.create", "b", disks(root), writ.CodeResourceConflict, "machine a uses the volume")
	refuses(containers, "container.create", "c", mounts(root), writ.CodeResourceBusy, "machine a uses the volume root")
	must(t, machines, "machine.create", "b", disks())
	refuses(machines, "machine.attach", "b", map[string]any{"volume": root}, writ.CodeResourceConflict, "machine a")

	must(t, containers, "container.create", "c", mounts(shared))
	must(t, containers, "container.create", "d", mounts(shared))
	refuses(machines, "machine.attach", "b", map[string]any{"volume": shared}, writ.CodeResourceBusy, "container ")
	must(t, containers, "container.delete", "c", nil)
	must(t, containers, "container.delete", "d", nil)
	must(t, machines, "machine.attach", "b", map[string]any{"volume": shared})
	refuses(machines, "machine.create", "e", disks(shared), writ.CodeResourceConflict, "machine b")
	must(t, machines, "machine.detach", "b", map[string]any{"volume": shared})
	must(t, machines, "machine.create", "e", disks(shared))
	must(t, machines, "machine.delete", "a", nil)
	must(t, machines, "machine.create", "f", disks(root))
}

func TestOneMachineWinsADisk(t *testing.T) {
	machines := open(t, Config{Module: "machine", Dir: t.TempDir()})
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			_, errs[i] = do(t, t.Context(), machines, "machine.create", "m"+strconv.Itoa(i), values(machineSpec, "networks", []any{}, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}))
		})
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case writ.CodeOf(err) != writ.CodeResourceConflict:
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d machines have the disk: %v", won, errs)
	}
}

func TestImageFormatsAreChecked(t *testing.T) {
	dir := t.TempDir()
	images := open(t, Config{Module: "image", Dir: dir})
	for _, format := range []string{"raw", "qcow2", "oci"} {
		must(t, images, "image.fetch", format, values(imageSpec, "format", format))
	}
	kernel := func(image string) map[string]any {
		return values(machineSpec, "networks", []any{}, "kernel", image)
	}
	for _, tt := range []struct {
		module, operation string
		args              func(image string) map[string]any
		accepts           []string
	}{
		{"container", "container.create", func(image string) map[string]any { return values(containerSpec, "image", image) }, []string{"oci", "unknown"}},
		{"volume", "volume.create", func(image string) map[string]any { return values(volumeSpec, "image", image) }, []string{"raw", "qcow2", "unknown"}},
		{"machine", "machine.create", kernel, []string{"raw", "unknown"}},
	} {
		d := open(t, Config{Module: tt.module, Dir: dir})
		for _, image := range []string{"raw", "qcow2", "oci", "unknown"} {
			_, err := do(t, t.Context(), d, tt.operation, "of-"+image, tt.args(image))
			if accepted := slices.Contains(tt.accepts, image); accepted != (err == nil) ||
				!accepted && writ.CodeOf(err) != writ.CodeArgumentsInvalid {
				t.Errorf("%s of the image %s: %v", tt.operation, image, err)
			}
		}
	}
}
