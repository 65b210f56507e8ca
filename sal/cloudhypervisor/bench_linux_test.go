package cloudhypervisor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"writ"
	"writ/internal/test/vmmstub"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// BenchmarkCreate measures the time that the driver adds to its tool: machine.create until the machine is booted,
// compared with starting a bare process that creates and boots the same machine. Both alternate, so that other load
// affects both. It reports medians.
func BenchmarkCreate(b *testing.B) {
	for name, parent := range map[string]string{"memory": "/dev/shm", "disk": ""} {
		b.Run(name, func(b *testing.B) {
			host, err := os.MkdirTemp(parent, "w")
			if err != nil {
				b.Skip(err)
			}
			defer os.RemoveAll(host)
			prepare(b, host)
			defer clear(b, host)
			d := open(host, vmmstub.Build(b), nil)
			var driven, bare []time.Duration
			for b.Loop() {
				driven, bare = append(driven, timeDriver(b, d)), append(bare, timeBare(b, d))
			}
			median := func(all []time.Duration) float64 {
				slices.Sort(all)
				return float64(all[len(all)/2].Microseconds()) / 1000
			}
			b.ReportMetric(median(driven), "ms/driver")
			b.ReportMetric(median(bare), "ms/bare")
			b.ReportMetric(median(driven)-median(bare), "ms/overhead")
		})
	}
}

// TestTheBenchmarkOfCreateRuns runs BenchmarkCreate once.
func TestTheBenchmarkOfCreateRuns(t *testing.T) {
	host := vmmstub.Passable(t)
	prepare(t, host)
	defer clear(t, host)
	d := open(host, vmmstub.Build(t), nil)
	if driven, bare := timeDriver(t, d), timeBare(t, d); driven <= 0 || bare <= 0 {
		t.Errorf("driver %v, bare %v", driven, bare)
	}
}

func benchRequest(b testing.TB, operation string, args map[string]any) sal.Request {
	o, _ := catalog.Lookup(operation)
	decoded, err := o.Decode(args)
	if err != nil {
		b.Fatal(err)
	}
	return sal.Request{Operation: o, Resource: machine("bench"), UID: "u1", Args: decoded, Key: "k", Progress: func(string) {}}
}

func timeDriver(b testing.TB, d *Driver) time.Duration {
	root := with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")})
	create, remove := benchRequest(b, "machine.create", root), benchRequest(b, "machine.delete", nil)
	var took time.Duration
	began, last := time.Now(), ""
	d.Step = func(step string) {
		if last == "boot the machine" {
			took = time.Since(began)
		}
		last = step
	}
	if _, err := d.Do(b.Context(), create); err != nil {
		b.Fatal(err)
	}
	d.Step = nil
	if _, err := d.Do(b.Context(), remove); err != nil {
		b.Fatal(err)
	}
	return took
}

func timeBare(b testing.TB, d *Driver) time.Duration {
	request := benchRequest(b, "machine.create", machineSpec)
	request.Resource = machine("bare")
	j := d.job(request)
	if err := sal.MakeDir(j.dir); err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(j.dir)
	r := sal.NewRecord[own](j.Request)
	r.Own.CPUs, r.Own.MemoryMiB = 1, 256
	if err := j.writeSeed(j.Args.(*catalog.MachineCreate), r); err != nil {
		b.Fatal(err)
	}
	config, err := j.config(b.Context(), r)
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	r.Own.Process = &process{Launch: fmt.Sprint(began.UnixNano())}
	h, err := j.spawn(d.Program, r)
	if err != nil {
		b.Fatal(err)
	}
	v := newVMM(j.groups(), j.dir, h)
	defer v.release()
	if _, err := v.Ping(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := v.Create(b.Context(), config); err != nil {
		b.Fatal(err)
	}
	if err := v.Boot(b.Context()); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	if err := v.end(context.WithoutCancel(b.Context()), func(string) {}); err != nil {
		b.Fatal(err)
	}
	return took
}
