package cloudhypervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/diskspace"
	"writ/internal/test/vmmstub"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// Promise: Volumes and images: Two machines never write to one volume.
// How: Records are compared before the record of the new machine is written.
func TestVolumeIsForOneMachineAtATime(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		root := []any{saltest.RefTo(writ.KindVolume, "root")}
		b.must("machine.create", "web", with(machineSpec, "disks", root))
		b.must("machine.stop", "web", nil)
		b.refuses("machine.create", "other", with(machineSpec, "disks", root), writ.CodeResourceConflict, "machine web")
		b.must("machine.create", "other", machineSpec)
		b.refuses("machine.attach", "other", map[string]any{"volume": root[0]}, writ.CodeResourceConflict, "machine web")
		b.refuses("machine.detach", "web", map[string]any{"volume": root[0]}, writ.CodeResourceConflict, "boots from")
		users, err := b.Users(t.Context(), saltest.RefTo(writ.KindVolume, "root").UID)
		if diff := cmp.Diff([]sal.User{{Owner: sal.Owner{Resource: machine("web"), UID: "uid-web"}}}, users); diff != "" || err != nil {
			t.Errorf("users: %v\n%s", err, diff)
		}
		for _, verb := range []string{"start", "pause"} {
			b.must("machine."+verb, "web", nil)
			if users, err := b.Users(t.Context(), saltest.RefTo(writ.KindVolume, "root").UID); err != nil || len(users) != 1 || !users[0].Running {
				t.Errorf("after %s the users are %+v, %v", verb, users, err)
			}
		}
		b.must("machine.delete", "web", nil)
		b.must("machine.attach", "other", map[string]any{"volume": root[0]})
		if info, err := os.Stat(filepath.Join(b.host, "volumes/root", sal.DiskName)); err != nil || info.Size() != 1<<30 || diskspace.Occupied(info) > 1<<20 {
			t.Errorf("the disk is %+v, %v", info, err)
		}
	})
}

// user is a driver that uses one volume.
type user struct{ volume writ.UID }

func (u user) Users(_ context.Context, volume writ.UID) ([]sal.User, error) {
	if volume != u.volume {
		return nil, nil
	}
	return []sal.User{{Owner: sal.Owner{Resource: saltest.Resource(writ.KindContainer, "box"), UID: "uid-box"}}}, nil
}

// A container could replace the disk in a volume by a link to any file of the host.
//
// Promise: Volumes and images: A container cannot make a machine open a file of its node.
// How: A volume serves one machine or containers; links instead of disks are not followed.
// Also: TestAFailedCreateOfAContainerLeavesNoTrace.
func TestContainersVolumeIsForNoMachine(t *testing.T) {
	b := newFixture(t)
	data := saltest.RefTo(writ.KindVolume, "data")
	b.Others = []sal.Users{user{data.UID}}
	b.refuses("machine.create", "web", with(machineSpec, "disks", []any{data}), writ.CodeResourceBusy, "container box")
	b.empty()
	b.must("machine.create", "web", machineSpec)
	b.refuses("machine.attach", "web", map[string]any{"volume": data}, writ.CodeResourceBusy, "container box")
	if users, err := b.Users(t.Context(), data.UID); err != nil || len(users) > 0 {
		t.Errorf("it was refused, and %v have it, %v", users, err)
	}
	b.Others = nil
	secret := filepath.Join(b.host, "secret")
	if err := os.Symlink(secret, filepath.Join(b.host, "volumes/data", sal.DiskName)); err != nil {
		t.Fatal(err)
	}
	if err := growTo(filepath.Join(b.host, "volumes/data", sal.DiskName), 1); err == nil {
		t.Error("a link was followed")
	}
}

// leaving is a driver of volumes that deletes a volume as soon as a record claims it.
type leaving struct {
	sal.Volumes
	d *Driver
}

func (l leaving) Volume(ctx context.Context, project writ.ProjectID, volume writ.Ref) (sal.Volume, error) {
	if users, err := l.d.Users(ctx, volume.UID); err != nil || len(users) > 0 {
		return sal.Volume{}, errors.Join(err, writ.Errorf(writ.CodeResourceBusy, "volume %s is just being deleted", volume.Name))
	}
	return l.Volumes.Volume(ctx, project, volume)
}

func TestVanishingVolumeIsForNoMachine(t *testing.T) {
	b := newFixture(t)
	root := saltest.RefTo(writ.KindVolume, "root")
	b.Volumes = leaving{b.Volumes, b.Driver}
	b.refuses("machine.create", "web", with(machineSpec, "disks", []any{root}), writ.CodeResourceBusy, "being deleted")
	b.empty()
	b.must("machine.create", "web", machineSpec)
	b.refuses("machine.attach", "web", map[string]any{"volume": root}, writ.CodeResourceBusy, "being deleted")
	if users, err := b.Users(t.Context(), root.UID); err != nil || len(users) > 0 {
		t.Errorf("it was refused, and %v have it, %v", users, err)
	}
}

// The record of a machine may be damaged, so its volumes are unknown.
func TestDamagedRecordBlocksVolumes(t *testing.T) {
	b := newFixture(t)
	root := []any{saltest.RefTo(writ.KindVolume, "root")}
	b.must("machine.create", "web", with(machineSpec, "disks", root))
	if err := os.WriteFile(filepath.Join(b.Dir, "records", machine("web").HostName()+".json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.refuses("machine.create", "other", with(machineSpec, "disks", root), writ.CodeRecordDamaged, "damaged", machine("web").HostName())
	volume := sal.Owner{Resource: saltest.Resource(writ.KindVolume, "root"), UID: saltest.RefTo(writ.KindVolume, "root").UID}
	if err := sal.Unused(t.Context(), volume, []sal.Users{b.Driver}); writ.CodeOf(err) != writ.CodeRecordDamaged {
		t.Errorf("the volume may be deleted: %v", err)
	}
	b.must("machine.create", "other", machineSpec) // a machine without volumes is harmless
	b.must("machine.delete", "web", nil)
	b.must("machine.attach", "other", map[string]any{"volume": root[0]})
}

func TestMachineOwnsItsBootImages(t *testing.T) {
	b := newFixture(t)
	b.must("machine.create", "web", with(machineSpec, "initramfs", "initramfs"))
	owner := func(name string, uid writ.UID) sal.Owner {
		return sal.Owner{Resource: saltest.Resource(writ.KindImage, name), UID: uid}
	}
	kernel := owner("linux", saltest.RefTo(writ.KindImage, "linux").UID)
	check := func(image sal.Owner, want bool) {
		t.Helper()
		err := sal.UnusedImage(t.Context(), image, []sal.ImageUsers{b.Driver})
		if (writ.CodeOf(err) == writ.CodeResourceBusy) != want || want && !strings.Contains(err.Error(), "machine web") {
			t.Errorf("%s: %v", image.Resource, err)
		}
	}
	elsewhere := kernel
	elsewhere.Resource.Project = "other"
	check(kernel, true)
	check(owner("initramfs", "any"), true)
	check(owner("linux", "another"), false)
	check(owner("root", "any"), false)
	check(elsewhere, false)
	b.must("machine.stop", "web", nil)
	check(kernel, true)
	hurt, err := os.ReadFile(filepath.Join(b.Dir, "records", machine("web").HostName()+".json"))
	if err != nil {
		t.Fatal(err)
	}
	hurt = hurt[:len(hurt)/2] // it still names its resource
	if err := os.WriteFile(filepath.Join(b.Dir, "records", machine("web").HostName()+".json"), hurt, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sal.UnusedImage(t.Context(), kernel, []sal.ImageUsers{b.Driver}); writ.CodeOf(err) != writ.CodeRecordDamaged {
		t.Errorf("with half of its record, the image may be deleted: %v", err)
	}
	check(elsewhere, false)
	if err := os.WriteFile(filepath.Join(b.Dir, "records", machine("web").HostName()+".json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sal.UnusedImage(t.Context(), kernel, []sal.ImageUsers{b.Driver}); writ.CodeOf(err) != writ.CodeRecordDamaged || !strings.Contains(err.Error(), "the users of the image are unknown") {
		t.Errorf("its record is damaged, and the image may be deleted: %v", err)
	}
	b.must("machine.delete", "web", nil)
	check(kernel, false)
}

func TestDisksGrowWithTheirVolumes(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.must("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}))
		b.keeps("web", "", false)
		if err := os.WriteFile(filepath.Join(b.host, "volumes/root/grown"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b.keeps("web", "had grown", true)
		b.keeps("web", "", false)
		disk := filepath.Join(b.host, "volumes/root", sal.DiskName)
		if err := os.Truncate(disk, 3<<30); err != nil { // like volume drivers that grow disks themselves
			t.Fatal(err)
		}
		b.keeps("web", "had grown", true)
		b.keeps("web", "", false)
		if err := os.Truncate(disk, 2<<30); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(b.host, "volumes/root", sal.DiskName)); err != nil || info.Size() != 2<<30 {
			t.Errorf("the disk is %+v, %v", info, err)
		}
	})
}

func TestRestoreBringsBackTheDisks(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		if b.forgets {
			t.Skip("memory of machines cannot be kept here")
		}
		path := filepath.Join(b.host, "volumes/root", sal.DiskName)
		write := func(text string) {
			t.Helper()
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt([]byte(text), 4096)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		read := func() string {
			t.Helper()
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			text := make([]byte, 3)
			if _, err := f.ReadAt(text, 4096); err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		b.must("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}))
		write("old")
		b.must("machine.snapshot", "web", before)
		b.must("machine.stop", "web", nil)
		write("off")
		b.must("machine.snapshot", "web", map[string]any{"snapshot": "off"})
		write("new")
		for name, want := range map[string]struct {
			power power
			text  string
		}{"before": {running, "old"}, "off": {stopped, "off"}} {
			got := b.must("machine.restore", "web", map[string]any{"snapshot": name})
			if got["state"] != string(want.power) || read() != want.text {
				t.Errorf("%s: it is %v and has %q", name, got["state"], read())
			}
			b.keeps("web", "", false)
		}
		b.refuses("machine.restore", "web", map[string]any{"snapshot": "none"}, writ.CodeResourceUnknown)
		b.change("web", func(o *own) {
			k := o.Kept["before"]
			k.Version = "v99.0"
			o.Kept["before"] = k
		})
		b.refuses("machine.restore", "web", before, writ.CodeResourceConflict, "v99.0")
	})
}

func TestFailedMemoryRestoreStopsMachine(t *testing.T) {
	b := newFixture(t)
	b.must("machine.create", "web", machineSpec)
	b.must("machine.snapshot", "web", before)
	vmmstub.Set(t, b.Program, vmmstub.Settings{Fail: map[string]string{"vm.restore": "no luck"}})
	b.refuses("machine.restore", "web", before, writ.CodeDriverFailed, "no luck")
	if got := b.state("web"); got != string(stopped) {
		t.Errorf("it is %s", got)
	}
	vmmstub.Set(t, b.Program, vmmstub.Settings{})
	b.keeps("web", "", false)
	b.must("machine.start", "web", nil)
	b.must("machine.restore", "web", before)
}

func TestFailedSnapshotLeavesMachineRunning(t *testing.T) {
	b := newFixture(t)
	b.must("machine.create", "web", machineSpec)
	vmmstub.Set(t, b.Program, vmmstub.Settings{Fail: map[string]string{"vm.snapshot": "no room"}})
	b.refuses("machine.snapshot", "web", before, writ.CodeDriverFailed, "no room")
	b.keeps("web", "", false)
	if got := b.state("web"); got != string(running) {
		t.Errorf("it is %s", got)
	}
}

func TestImpossibleResizeIsRefused(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.must("machine.create", "web", machineSpec)
		for _, size := range []map[string]any{{"cpus": int64(9)}, {"memory_mib": int64(128)}, {"memory_mib": int64(300)}, {"memory_mib": int64(4096)}} {
			b.refuses("machine.resize", "web", size, writ.CodeResourceConflict)
		}
		b.must("machine.resize", "web", map[string]any{"cpus": int64(8), "memory_mib": int64(512)})
		b.must("machine.stop", "web", nil)
		got := b.must("machine.resize", "web", map[string]any{"cpus": int64(3), "memory_mib": int64(300)})
		if got["cpus"] != int64(3) || got["memory_mib"] != int64(300) {
			t.Errorf("it has %v", got)
		}
		b.must("machine.start", "web", nil)
		b.keeps("web", "", false)
	})
}

func TestInterruptedResizeIsFinished(t *testing.T) {
	for finish, how := range map[string]func(b *fixture){
		"by the operation": func(b *fixture) { b.must("machine.create", "web", with(machineSpec, "cpus", int64(2))) },
		"by the runner":    func(b *fixture) { b.keeps("web", "its CPUs or memory differed", true) },
	} {
		t.Run(finish, func(t *testing.T) {
			b := newFixture(t)
			b.must("machine.create", "web", machineSpec)
			// A crash happened after this change and before the request to the process.
			b.change("web", func(o *own) { o.CPUs = 2 })
			how(b)
			b.keeps("web", "", false)
			b.must("machine.create", "web", with(machineSpec, "cpus", int64(2)))
			v, err := b.openProcess(b.record("web"))
			if err != nil || v == nil {
				t.Fatal(err)
			}
			defer v.release()
			if info, err := v.Info(t.Context()); err != nil || info.Config.CPUs.BootVcpus != 2 {
				t.Errorf("it has %+v, %v", info.Config.CPUs, err)
			}
		})
	}
}

func TestRefusedSizeStaysRefused(t *testing.T) {
	b := newFixture(t)
	b.must("machine.create", "web", machineSpec)
	vmmstub.Set(t, b.Program, vmmstub.Settings{Fail: map[string]string{"vm.resize": "no luck"}})
	for range 2 { // the first attempt must not have been recorded
		b.refuses("machine.create", "web", with(machineSpec, "cpus", int64(2)), writ.CodeDriverFailed, "no luck")
	}
	b.keeps("web", "", false)
}

func TestUnreleasedDiskStaysAttached(t *testing.T) {
	b := newFixture(t)
	b.must("machine.create", "web", machineSpec)
	b.must("machine.attach", "web", data)
	b.refuses("machine.attach", "web", with(data, "read_only", true), writ.CodeResourceConflict, "another mode")
	vmmstub.Set(t, b.Program, vmmstub.Settings{Stuck: true})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	o, _ := catalog.Lookup("machine.detach")
	args, err := o.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Do(ctx, sal.Request{Operation: o, Resource: machine("web"), UID: "uid-web", Args: args, Progress: func(string) {}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
	if users, err := b.Users(t.Context(), saltest.RefTo(writ.KindVolume, "data").UID); err != nil || len(users) != 1 {
		t.Errorf("users: %v, %v", users, err)
	}
}

// v53 rejects a repeated request for the disk, v54 accepts it.
func TestHeldDiskIsBusyEachTime(t *testing.T) {
	for _, release := range vmmstub.Releases {
		t.Run(release.String(), func(t *testing.T) {
			b := newFixtureOn(t, setup{program: vmmstub.BuildOf(t, release), prepare: prepare})
			b.guestTime = 10 * time.Millisecond
			b.must("machine.create", "web", machineSpec)
			b.must("machine.attach", "web", data)
			vmmstub.Set(t, b.Program, vmmstub.Settings{Stuck: true})
			for range 2 {
				b.refuses("machine.detach", "web", data, writ.CodeResourceBusy, "does not release")
			}
			b.keeps("web", "", false)
			vmmstub.Set(t, b.Program, vmmstub.Settings{})
			b.must("machine.stop", "web", nil)
			b.must("machine.detach", "web", data)
		})
	}
}

// Memory that a guest was given cannot be taken back.
//
// Promise: Machines and the overlay: A refused resize changes no setting, or the record holds the actual size; memory
// or CPUs that a guest keeps are `RESOURCE_BUSY`.
// How: Memory changes first, then CPUs; the record follows the actual machine.
// Also: TestNinthMemoryAdditionIsRefused, TestUnreleasedCPUsMakeResizeBusy, TestHeldDiskIsBusyEachTime.
func TestHalfRefusedResizeIsRecorded(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.must("machine.create", "web", machineSpec)
		for i := range 6 { // 768 MiB may be added to 256; the last two steps exceed that
			b.must("machine.resize", "web", map[string]any{"memory_mib": int64(256 + 128*(i+1))})
		}
		b.refuses("machine.resize", "web", map[string]any{"cpus": int64(2), "memory_mib": int64(1024 + 128)}, writ.CodeResourceConflict, "cannot get more memory")
		seen, err := b.Observe(t.Context(), machine("web"))
		if err != nil || seen.Values["cpus"] != int64(1) || seen.Values["memory_mib"] != int64(1024) {
			t.Errorf("refused it has %v, %v", seen.Values, err)
		}
		b.keeps("web", "", false)
		v, err := b.openProcess(b.record("web"))
		if err != nil || v == nil {
			t.Fatal(err)
		}
		defer v.release()
		if info, err := v.Info(t.Context()); err != nil || info.Config.CPUs.BootVcpus != 1 || info.Config.Memory.Size != 1024<<20 {
			t.Errorf("refused it is %+v, %+v, %v", info.Config.CPUs, info.Config.Memory, err)
		}
	})
}

// The ninth addition of memory to a running machine fails.
func TestNinthMemoryAdditionIsRefused(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.must("machine.create", "web", with(machineSpec, "memory_mib", int64(512)))
		for i := range 8 {
			b.must("machine.resize", "web", map[string]any{"memory_mib": int64(512 + 128*(i+1))})
		}
		_, err := b.do("machine.resize", "web", map[string]any{"memory_mib": int64(512 + 128*9)})
		if e := writ.AsError(err); e == nil || e.Code != writ.CodeResourceConflict || !strings.Contains(e.Hint, "stop it, change it, and start it") {
			t.Errorf("the ninth: %v", err)
		}
		b.keeps("web", "", false)
		b.must("machine.stop", "web", nil)
		b.must("machine.resize", "web", map[string]any{"memory_mib": int64(512 + 128*9)})
		b.must("machine.start", "web", nil)
		b.must("machine.resize", "web", map[string]any{"memory_mib": int64(512 + 128*10)})
	})
}

// The process answers 429 meanwhile.
func TestUnreleasedCPUsMakeResizeBusy(t *testing.T) {
	for _, release := range vmmstub.Releases {
		t.Run(release.String(), func(t *testing.T) {
			b := newFixtureOn(t, setup{program: vmmstub.BuildOf(t, release), prepare: prepare})
			b.guestTime = 10 * time.Millisecond
			b.must("machine.create", "web", machineSpec)
			b.must("machine.resize", "web", map[string]any{"cpus": int64(4)})
			vmmstub.Set(t, b.Program, vmmstub.Settings{StuckCPUs: true})
			b.must("machine.resize", "web", map[string]any{"cpus": int64(2)})
			b.refuses("machine.resize", "web", map[string]any{"cpus": int64(3)}, writ.CodeResourceBusy, "not released the CPUs")
			if seen, err := b.Observe(t.Context(), machine("web")); err != nil || seen.Values["cpus"] != int64(2) {
				t.Errorf("refused it has %v, %v", seen.Values, err)
			}
			b.keeps("web", "", false)
			// The guest got the memory meanwhile, and it cannot be taken back.
			b.refuses("machine.resize", "web", map[string]any{"cpus": int64(3), "memory_mib": int64(384)}, writ.CodeResourceBusy, "not released the CPUs")
			if seen, err := b.Observe(t.Context(), machine("web")); err != nil || seen.Values["cpus"] != int64(2) || seen.Values["memory_mib"] != int64(384) {
				t.Errorf("refused in its second half it has %v, %v", seen.Values, err)
			}
			b.keeps("web", "", false)
		})
	}
}
