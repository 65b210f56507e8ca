package vmmstub_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each line starts a new program and first makes requests that must succeed.
func TestRequestsAreAnsweredAsTheRealProgramDoes(t *testing.T) {
	both(t, requestsAreAnswered)
}

// noMemory is part of the error of a snapshot if KVM runs machines but cannot report the state of their CPUs, as
// kvm_pvm.
const noMemory = "GetNestedState"

func requestsAreAnswered(t *testing.T, program program) {
	create, boot, pause := "PUT vm.create CONFIG", "PUT vm.boot", "PUT vm.pause"
	since54 := func(status int, body string) *answer { return &answer{status, body} }
	for _, tt := range []struct {
		name   string
		before []string
		ask    string
		status int
		body   string  // prefix of the body
		v54    *answer // answer since v54, if different
	}{
		{"an unknown path", nil, "GET vm.nothing", 404, `["Not Found"]`, nil},
		{"a slash behind is another path", nil, "GET vmm.ping/", 404, `["Not Found"]`, nil},
		{"a query is another path", nil, "GET vmm.ping?a=1", 404, `["Not Found"]`, nil},
		{"ping is not put", nil, "PUT vmm.ping", 400, `["Bad Request"]`, nil},
		{"boot is not got", nil, "GET vm.boot", 400, `["Bad Request"]`, nil},
		{"other methods get no reason", nil, "PATCH vm.boot", 400, ``, nil},
		{"methods it does not know are no HTTP", nil, "POST vm.boot", 400, `{ "error": `, nil},
		{"an action takes no body", []string{create}, "PUT vm.boot {}", 400, `["Bad Request"]`, nil},
		{"an action that takes a body needs it", nil, "PUT vm.resize", 400, `["Bad Request"]`, nil},
		{"create without a body gets no reason", nil, "PUT vm.create", 400, ``, nil},
		{"invalid JSON is refused", nil, "PUT vm.create {", 400, `["Failed to deserialize JSON",`, nil},
		{"keys are case sensitive", nil, `PUT vm.create {"cpus":{"Boot_vcpus":1,"max_vcpus":1}}`, 400, "[\"Failed to deserialize JSON\",\"missing field `boot_vcpus`", nil},
		{"a number is not null", nil, `PUT vm.create {"cpus":{"boot_vcpus":null,"max_vcpus":1}}`, 400, `["Failed to deserialize JSON",`, nil},
		{"an unknown variant is refused", nil, `PUT vm.create {"serial":{"mode":"Loud"}}`, 400, "[\"Failed to deserialize JSON\",\"unknown variant `Loud`", nil},
		{"unknown keys are ignored", nil, `PUT vm.create {"payload":{"kernel":"/none"},"of_tomorrow":1,"console":{"mode":"Off"}}`, 204, ``, nil},

		{"nothing is created", nil, "GET vm.info", 404, `["Error from API","The VM info is not available","VM is not created"]`, nil},
		{"nothing is booted", nil, boot, 404, `["Error from API","The VM could not boot","VM config is missing"]`, nil},
		{"nothing is rebooted", nil, "PUT vm.reboot", 404, `["Error from API","The VM could not reboot","VM is not created"]`, nil},
		{"nothing is resized", nil, `PUT vm.resize {"desired_vcpus":2}`, 404, `["Error from API","The VM could not be resized","VM is not created"]`, nil},
		{"nothing is deleted", nil, "PUT vm.delete", 204, ``, nil},
		{"create", nil, create, 204, ``, nil},
		{"it is created already", []string{create}, create, 500, `["Error from API","The VM could not be created","VM is already created"]`, nil},
		{"create checks no file", nil, `PUT vm.create {"console":{"mode":"Off"}}`, 204, ``, nil},
		{"a console that cannot be opened", nil, `PUT vm.create {"console":{"mode":"File","file":"/none/console"}}`, 500,
			`["Error from API","The VM could not be created","Error creating console devices",`, nil},
		{"boot looks at it", []string{`PUT vm.create {"console":{"mode":"Off"}}`}, boot, 500, `["Error from API","The VM could not boot","Failed to validate config","Payload configuration`,
			since54(400, `["Error from API","The VM could not boot","Failed to validate config","Payload configuration`)},
		{"boot opens the kernel", []string{`PUT vm.create {"payload":{"kernel":"/none"},"console":{"mode":"Off"}}`}, boot, 500,
			`["Error from API","The VM could not boot","Cannot open kernel file","No such file or directory (os error 2)"]`, nil},
		{"names with two underscores are its own", []string{`PUT vm.create CONFIG,"disks":[{"id":"__a","path":"DISK"}]`}, boot, 500,
			`["Error from API","The VM could not boot","Failed to validate config","Identifier __a is not invalid"]`,
			since54(400, `["Error from API","The VM could not boot","Failed to validate config","Identifier __a is not valid"]`)},
		{"names are there once", []string{`PUT vm.create CONFIG,"disks":[{"id":"a","path":"DISK"},{"id":"a","path":"OTHER"}]`}, boot, 500,
			`["Error from API","The VM could not boot","Failed to validate config","Identifier a is not unique"]`,
			since54(409, `["Error from API","The VM could not boot","Failed to validate config","Identifier a is not unique"]`)},

		{"counters need a running machine", []string{create}, "GET vm.counters", 500, `["Error from API","The VM info is not available","VM is not running"]`, nil},
		{"pause needs a running machine", []string{create}, pause, 500, `["Error from API","The VM could not be paused","VM is not running"]`, nil},
		{"resume needs a running machine", []string{create}, "PUT vm.resume", 500, `["Error from API","The VM could not resume","VM is not running"]`, nil},
		{"the button needs a running machine", []string{create}, "PUT vm.power-button", 500, `["Error from API","Error triggering power button","VM is not running"]`, nil},
		{"shutdown needs a running machine", []string{create}, "PUT vm.shutdown", 500, `["Error from API","The VM could not shutdown","VM is not running"]`, nil},
		{"a disk is resized while it runs", []string{create}, `PUT vm.resize-disk {"id":"a","desired_size":1}`, 500, `["Error from API","The disk could not be resized",`, nil},
		{"boot", []string{create}, boot, 204, ``, nil},
		{"it is booted already", []string{create, boot}, boot, 500, `["Error from API","The VM could not boot","VM is already created"]`, nil},
		{"it runs already", []string{create, boot}, "PUT vm.resume", 500, `["Error from API","The VM could not resume","Cannot resume VM",`, nil},
		{"pause", []string{create, boot}, pause, 204, ``, nil},
		{"it is paused already", []string{create, boot, pause}, pause, 500, `["Error from API","The VM could not be paused","Cannot pause VM",`, nil},
		{"resume", []string{create, boot, pause}, "PUT vm.resume", 204, ``, nil},
		{"reboot", []string{create, boot}, "PUT vm.reboot", 204, ``, nil},
		{"shutdown", []string{create, boot}, "PUT vm.shutdown", 204, ``, nil},
		{"shutdown of a paused machine", []string{create, boot, pause}, "PUT vm.shutdown", 204, ``, nil},
		{"boot after shutdown", []string{create, boot, "PUT vm.shutdown"}, boot, 204, ``, nil},
		{"delete of a running machine", []string{create, boot}, "PUT vm.delete", 204, ``, nil},
		{"it is deleted", []string{create, boot, "PUT vm.delete"}, "GET vm.info", 404, `["Error from API",`, nil},
		{"create after delete", []string{create, boot, "PUT vm.delete"}, create, 204, ``, nil},
		{"the end answers 200 without a body", nil, "PUT vmm.shutdown", 200, ``, nil},

		{"a disk for a running machine", []string{create, boot}, `PUT vm.add-disk {"id":"a","path":"DISK"}`, 200, `{"id":"a","bdf":"0000:00:02.0"}`, nil},
		{"a disk without a name", []string{create, boot}, `PUT vm.add-disk {"path":"DISK"}`, 200, `{"id":"_disk0","bdf":"0000:00:02.0"}`, nil},
		{"a disk for a created machine", []string{create}, `PUT vm.add-disk {"id":"a","path":"DISK"}`, 204, ``, nil},
		{"a disk without a machine", nil, `PUT vm.add-disk {"id":"a","path":"DISK"}`, 404, `["Error from API","The disk could not be added to the VM","VM is not created"]`, nil},
		{"an existing name", []string{create, boot, `PUT vm.add-disk {"id":"a","path":"DISK"}`}, `PUT vm.add-disk {"id":"a","path":"OTHER"}`, 500,
			`["Error from API","The disk could not be added to the VM","Failed to validate config","Identifier a is not unique"]`,
			since54(409, `["Error from API","The disk could not be added to the VM","Failed to validate config","Identifier a is not unique"]`)},
		{"an existing disk", []string{create, boot, `PUT vm.add-disk {"id":"a","path":"DISK"}`}, `PUT vm.add-disk {"id":"b","path":"DISK"}`, 500,
			`["Error from API","The disk could not be added to the VM","Error from device manager","Cannot lock images of all block devices","Failed to get Write lock for disk image: `, nil},
		{"a missing disk", []string{create, boot}, `PUT vm.add-disk {"id":"b","path":"/none"}`, 500, `["Error from API","The disk could not be added to the VM","Error from device manager","Cannot open disk path",`, nil},
		{"a missing device", []string{create, boot}, `PUT vm.remove-device {"id":"z"}`, 500, `["Error from API","The device could not be removed from the VM",`,
			since54(404, `["Error from API","The device could not be removed from the VM",`)},
		{"remove", []string{create, boot, `PUT vm.add-disk {"id":"a","path":"DISK"}`}, `PUT vm.remove-device {"id":"a"}`, 204, ``, nil},
		{"grow a disk", []string{create, boot, `PUT vm.add-disk {"id":"a","path":"DISK"}`}, `PUT vm.resize-disk {"id":"a","desired_size":2097152}`, 204, ``, nil},

		{"more CPUs", []string{create, boot}, `PUT vm.resize {"desired_vcpus":4}`, 204, ``, nil},
		{"more CPUs than it may have", []string{create, boot}, `PUT vm.resize {"desired_vcpus":5}`, 500, `["Error from API","The VM could not be resized","Error from CPU manager",`, nil},
		{"more memory", []string{create, boot}, `PUT vm.resize {"desired_ram":268435456}`, 204, ``, nil},
		{"more memory by an odd size", []string{create, boot}, `PUT vm.resize {"desired_ram":134217729}`, 500, `["Error from API","The VM could not be resized","Memory manager error",`, nil},
		{"more memory than it may have", []string{create, boot}, `PUT vm.resize {"desired_ram":1073741824}`, 500, `["Error from API","The VM could not be resized","Memory manager error",`, nil},
		{"less memory is not an error", []string{create, boot}, `PUT vm.resize {"desired_ram":67108864}`, 204, ``, nil},

		{"a snapshot of a running machine", []string{create, boot}, `PUT vm.snapshot {"destination_url":"file://DIR"}`, 500, `["Error from API","The VM could not be snapshotted","Cannot snapshot VM",`, nil},
		{"a snapshot", []string{create, boot, pause}, `PUT vm.snapshot {"destination_url":"file://DIR"}`, 204, ``, nil},
		{"a snapshot into a missing directory", []string{create, boot, pause}, `PUT vm.snapshot {"destination_url":"file://DIR/none"}`, 500, `["Error from API","The VM could not be snapshotted","Cannot send VM snapshot",`, nil},
		{"a snapshot over another", []string{create, boot, pause, `PUT vm.snapshot {"destination_url":"file://DIR"}`}, `PUT vm.snapshot {"destination_url":"file://DIR"}`, 500,
			`["Error from API","The VM could not be snapshotted","Cannot send VM snapshot",`, nil},
		{"restore over another", []string{create}, `PUT vm.restore {"source_url":"file://DIR"}`, 500, `["Error from API","The VM could not be restored","VM is already created"]`, nil},
		{"restore of nothing", nil, `PUT vm.restore {"source_url":"file://DIR"}`, 500, `["Error from API","The VM could not be restored","Cannot restore VM",`, nil},

		{"a body that is too big", nil, "PUT vm.create " + strings.Repeat(" ", 51201), 400, "{ \"error\": \"Request payload with size 51201 is larger than the limit of 51200 allowed by server.",
			since54(400, `["Failed to deserialize JSON",`)},
		{"a body that is far too big", nil, "PUT vm.create " + strings.Repeat(" ", 4<<20+1), 400, "{ \"error\": \"Request payload with size 4194305 is larger than the limit of ", nil},
		{"an invalid kernel", []string{`PUT vm.create {"payload":{"kernel":"DISK"},"console":{"mode":"Off"}}`}, boot, 500,
			`["Error from API","The VM could not boot","Cannot load the kernel into memory",`, nil},
		{"an empty disk", []string{create, boot}, `PUT vm.add-disk {"id":"a","path":"NOTHING"}`, 500, `["Error from API","The disk could not be added to the VM","Error from device manager",`,
			since54(200, `{"id":"a","bdf":"0000:00:02.0"}`)},
		{"an odd memory", []string{`PUT vm.create {"payload":{"kernel":"KERNEL"},"memory":{"size":134217729},"console":{"mode":"Off"}}`}, boot, 500,
			`["Error from API","The VM could not boot",`, nil},
		{"no memory", []string{`PUT vm.create {"payload":{"kernel":"KERNEL"},"memory":{"size":0},"console":{"mode":"Off"}}`}, boot, 500,
			`["Error from API","The VM could not boot",`, nil},
		{"a command line of many alphabets", []string{`PUT vm.create {"payload":{"kernel":"KERNEL","cmdline":"größe"},"console":{"mode":"Off"}}`}, boot, 500,
			`["Error from API","The VM could not boot",`, nil},
		{"an initramfs that is bigger than memory", []string{`PUT vm.create {"payload":{"kernel":"KERNEL","initramfs":"BIG"},"memory":{"size":134217728},"console":{"mode":"Off"}}`}, boot, 500,
			`["Error from API","The VM could not boot",`, nil},
		{"a body that is just not", nil, "PUT vm.create " + strings.Repeat(" ", 51200-2) + "{}", 204, ``, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, program)
			ask := func(line string) (int, string) {
				method, rest, _ := strings.Cut(line, " ")
				action, body, _ := strings.Cut(rest, " ")
				if more, found := strings.CutPrefix(body, "CONFIG"); found {
					body = p.config(more)
				}
				body = strings.NewReplacer("KERNEL", p.kernelFile(), "NOTHING", p.file("nothing", 0), "BIG", p.file("big", 256<<20), "DISK", p.disk("disk"), "OTHER", p.disk("other"), "DIR", p.dir).Replace(body)
				status, text := p.do(method, action, body)
				if p.genuine && strings.Contains(text, noMemory) {
					t.Skipf("the KVM of this machine does not report the state that a snapshot needs: %s", text)
				}
				return status, text
			}
			for _, line := range tt.before {
				if status, body := ask(line); status/100 != 2 {
					t.Fatalf("%s = %d %s", line, status, body)
				}
			}
			status, body := ask(tt.ask)
			if tt.v54 != nil && p.release >= 54 {
				tt.status, tt.body = tt.v54.status, tt.v54.body
			}
			if status != tt.status || !strings.HasPrefix(body, tt.body) || tt.body == "" && body != "" {
				t.Errorf("%.80s = %d %s, want %d %s", tt.ask, status, body, tt.status, tt.body)
			}
		})
	}
}

// answer is an HTTP status and the prefix of a body.
type answer struct {
	status int
	body   string
}

func TestTheStubReportsUnsupportedRequests(t *testing.T) {
	if status, body := play(t).do("PUT", "vm.add-fs", "{}"); status != 500 || !strings.HasPrefix(body, `["Error from API","vmmstub does not play`) {
		t.Errorf("vm.add-fs = %d %s", status, body)
	}
}

// disk returns a file of 1 MiB, which it creates at first use.
func (p *process) disk(name string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if p.disks[path] {
		return path
	}
	if p.disks == nil {
		p.disks = map[string]bool{}
	}
	p.disks[path] = true
	return p.file(name, 1<<20)
}

func TestPingAnswersBeforeThereIsAMachine(t *testing.T) {
	both(t, func(t *testing.T, program program) {
		p := start(t, program)
		status, body := p.do("GET", "vmm.ping", "")
		want := fmt.Sprintf(`{"build_version":"v%[1]d.0","version":"%[1]d.0.0","pid":%[2]d,"features":["io_uring","kvm"]}`, p.release, p.cmd.Process.Pid)
		if p.genuine { // of any version
			body = regexp.MustCompile(`("build_version":)"v[0-9.]+[^"]*",("version":)("[0-9.]+")`).ReplaceAllString(body, fmt.Sprintf(`$1"v%d.0",$2$3`, p.release))
		}
		if status != 200 || body != want {
			t.Errorf("vmm.ping = %d %s, want %s", status, body, want)
		}
	})
}

// A failed create leaves a configuration.
func TestACreateThatFailedLeavesItsConfiguration(t *testing.T) {
	both(t, func(t *testing.T, program program) {
		p := start(t, program)
		if status, body := p.do("PUT", "vm.create", `{"serial":{"mode":"File","file":"/none/serial"},"console":{"mode":"Off"}}`); status != 500 {
			t.Fatalf("vm.create = %d %s", status, body)
		}
		if status, body := p.do("PUT", "vm.create", p.config("")); status != 500 || !strings.Contains(body, "VM is already created") {
			t.Errorf("a second vm.create = %d %s", status, body)
		}
		p.must("vm.delete", "")
		p.must("vm.create", p.config(""))
	})
}

func TestInfoShowsStateDefaultsAndNames(t *testing.T) {
	both(t, func(t *testing.T, program program) {
		p := start(t, program)
		p.must("vm.create", p.config(`,"disks":[{"path":"`+p.disk("disk")+`"},{"path":"`+p.disk("other")+`","readonly":true}]`))
		if in := p.info(); in.State != "Created" || in.Memory != 128<<20 || in.Config.Disks[0]["id"] != nil {
			t.Errorf("created: %s", in.raw)
		}
		p.must("vm.boot", "")
		in := p.info()
		got := []any{in.State, in.Config.Disks[0]["id"], in.Config.Disks[1]["id"], in.Config.Disks[0]["queue_size"], in.Config.CPUs["nested"]}
		if diff := cmp.Diff([]any{"Running", "_disk0", "_disk1", 128.0, true}, got); diff != "" {
			t.Error(diff)
		}
		if strings.Contains(in.raw, "null") {
			t.Errorf("fields without a value are not left out: %s", in.raw)
		}
		p.must("vm.pause", "")
		if got := p.info().State; got != "Paused" {
			t.Errorf("paused: %s", got)
		}
		p.must("vm.shutdown", "")
		if got := p.info().State; got != "Created" {
			t.Errorf("after shutdown: %s", got)
		}
	})
}
