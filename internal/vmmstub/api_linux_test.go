package vmmstub_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each line asks a new program, after what comes before has succeeded.
func TestRequestsAreAnsweredAsTheRealProgramDoes(t *testing.T) {
	both(t, requestsAreAnswered)
}

// noMemory is in the error of a snapshot where KVM runs machines and cannot say in which state their processors are, as kvm_pvm.
const noMemory = "GetNestedState"

func requestsAreAnswered(t *testing.T, program program) {
	create, boot, pause := "PUT vm.create CONFIG", "PUT vm.boot", "PUT vm.pause"
	for _, tt := range []struct {
		name   string
		before []string
		ask    string
		status int
		body   string // how it begins
	}{
		{"there is no such path", nil, "GET vm.nothing", 404, `["Not Found"]`},
		{"a slash behind is another path", nil, "GET vmm.ping/", 404, `["Not Found"]`},
		{"a query is another path", nil, "GET vmm.ping?a=1", 404, `["Not Found"]`},
		{"ping is not put", nil, "PUT vmm.ping", 400, `["Bad Request"]`},
		{"boot is not got", nil, "GET vm.boot", 400, `["Bad Request"]`},
		{"other methods get no reason", nil, "PATCH vm.boot", 400, ``},
		{"methods it does not know are no HTTP", nil, "POST vm.boot", 400, `{ "error": `},
		{"an action takes no body", []string{create}, "PUT vm.boot {}", 400, `["Bad Request"]`},
		{"an action that takes a body needs it", nil, "PUT vm.resize", 400, `["Bad Request"]`},
		{"create without a body gets no reason", nil, "PUT vm.create", 400, ``},
		{"what is no JSON is refused", nil, "PUT vm.create {", 400, `["Failed to deserialize JSON",`},
		{"a key is written as it is", nil, `PUT vm.create {"cpus":{"Boot_vcpus":1,"max_vcpus":1}}`, 400, "[\"Failed to deserialize JSON\",\"missing field `boot_vcpus`"},
		{"a number is not null", nil, `PUT vm.create {"cpus":{"boot_vcpus":null,"max_vcpus":1}}`, 400, `["Failed to deserialize JSON",`},
		{"a word is one of those there are", nil, `PUT vm.create {"serial":{"mode":"Loud"}}`, 400, "[\"Failed to deserialize JSON\",\"unknown variant `Loud`"},
		{"keys that it does not know are nothing", nil, `PUT vm.create {"payload":{"kernel":"/none"},"of_tomorrow":1,"console":{"mode":"Off"}}`, 204, ``},

		{"nothing is created", nil, "GET vm.info", 404, `["Error from API","The VM info is not available","VM is not created"]`},
		{"nothing is booted", nil, boot, 404, `["Error from API","The VM could not boot","VM config is missing"]`},
		{"nothing is rebooted", nil, "PUT vm.reboot", 404, `["Error from API","The VM could not reboot","VM is not created"]`},
		{"nothing is resized", nil, `PUT vm.resize {"desired_vcpus":2}`, 404, `["Error from API","The VM could not be resized","VM is not created"]`},
		{"nothing is deleted", nil, "PUT vm.delete", 204, ``},
		{"create", nil, create, 204, ``},
		{"it is created already", []string{create}, create, 500, `["Error from API","The VM could not be created","VM is already created"]`},
		{"create looks at nothing", nil, `PUT vm.create {"console":{"mode":"Off"}}`, 204, ``},
		{"a console that cannot be opened", nil, `PUT vm.create {"console":{"mode":"File","file":"/none/console"}}`, 500,
			`["Error from API","The VM could not be created","Error creating console devices",`},
		{"boot looks at it", []string{`PUT vm.create {"console":{"mode":"Off"}}`}, boot, 500, `["Error from API","The VM could not boot","Failed to validate config","Payload configuration`},
		{"boot opens the kernel", []string{`PUT vm.create {"payload":{"kernel":"/none"},"console":{"mode":"Off"}}`}, boot, 500,
			`["Error from API","The VM could not boot","Cannot open kernel file","No such file or directory (os error 2)"]`},
		{"names with two underscores are its own", []string{`PUT vm.create CONFIG,"disks":[{"id":"__a","path":"DISK"}]`}, boot, 500,
			`["Error from API","The VM could not boot","Failed to validate config","Identifier __a is not invalid"]`},
		{"names are there once", []string{`PUT vm.create CONFIG,"disks":[{"id":"a","path":"DISK"},{"id":"a","path":"OTHER"}]`}, boot, 500,
			`["Error from API","The VM could not boot","Failed to validate config","Identifier a is not unique"]`},

		{"counters are for what runs", []string{create}, "GET vm.counters", 500, `["Error from API","The VM info is not available","VM is not running"]`},
		{"pause is for what runs", []string{create}, pause, 500, `["Error from API","The VM could not be paused","VM is not running"]`},
		{"resume is for what runs", []string{create}, "PUT vm.resume", 500, `["Error from API","The VM could not resume","VM is not running"]`},
		{"the button is for what runs", []string{create}, "PUT vm.power-button", 500, `["Error from API","Error triggering power button","VM is not running"]`},
		{"shutdown is for what runs", []string{create}, "PUT vm.shutdown", 500, `["Error from API","The VM could not shutdown","VM is not running"]`},
		{"a disk is resized while it runs", []string{create}, `PUT vm.resize-disk {"id":"a","desired_size":1}`, 500, `["Error from API","The disk could not be resized",`},
		{"boot", []string{create}, boot, 204, ``},
		{"it is booted already", []string{create, boot}, boot, 500, `["Error from API","The VM could not boot","VM is already created"]`},
		{"it runs already", []string{create, boot}, "PUT vm.resume", 500, `["Error from API","The VM could not resume","Cannot resume VM",`},
		{"pause", []string{create, boot}, pause, 204, ``},
		{"it is paused already", []string{create, boot, pause}, pause, 500, `["Error from API","The VM could not be paused","Cannot pause VM",`},
		{"resume", []string{create, boot, pause}, "PUT vm.resume", 204, ``},
		{"reboot", []string{create, boot}, "PUT vm.reboot", 204, ``},
		{"shutdown", []string{create, boot}, "PUT vm.shutdown", 204, ``},
		{"shutdown of what is paused", []string{create, boot, pause}, "PUT vm.shutdown", 204, ``},
		{"boot after shutdown", []string{create, boot, "PUT vm.shutdown"}, boot, 204, ``},
		{"delete of what runs", []string{create, boot}, "PUT vm.delete", 204, ``},
		{"it is deleted", []string{create, boot, "PUT vm.delete"}, "GET vm.info", 404, `["Error from API",`},
		{"create after delete", []string{create, boot, "PUT vm.delete"}, create, 204, ``},
		{"the end says 200 and nothing", nil, "PUT vmm.shutdown", 200, ``},

		{"a disk for what runs", []string{create, boot}, `PUT vm.add-disk {"id":"a","path":"DISK"}`, 200, `{"id":"a","bdf":"0000:00:02.0"}`},
		{"a disk without a name", []string{create, boot}, `PUT vm.add-disk {"path":"DISK"}`, 200, `{"id":"_disk0","bdf":"0000:00:02.0"}`},
		{"a disk for what is created", []string{create}, `PUT vm.add-disk {"id":"a","path":"DISK"}`, 204, ``},
		{"a disk for nothing", nil, `PUT vm.add-disk {"id":"a","path":"DISK"}`, 404, `["Error from API","The disk could not be added to the VM","VM is not created"]`},
		{"a name that there is", []string{create, boot, `PUT vm.add-disk {"id":"a","path":"DISK"}`}, `PUT vm.add-disk {"id":"a","path":"OTHER"}`, 500,
			`["Error from API","The disk could not be added to the VM","Failed to validate config","Identifier a is not unique"]`},
		{"a disk that there is", []string{create, boot, `PUT vm.add-disk {"id":"a","path":"DISK"}`}, `PUT vm.add-disk {"id":"b","path":"DISK"}`, 500,
			`["Error from API","The disk could not be added to the VM","Error from device manager","Cannot lock images of all block devices","Failed to get Write lock for disk image: `},
		{"a disk that there is not", []string{create, boot}, `PUT vm.add-disk {"id":"b","path":"/none"}`, 500, `["Error from API","The disk could not be added to the VM","Error from device manager","Cannot open disk path",`},
		{"a device that there is not", []string{create, boot}, `PUT vm.remove-device {"id":"z"}`, 500, `["Error from API","The device could not be removed from the VM",`},
		{"remove", []string{create, boot, `PUT vm.add-disk {"id":"a","path":"DISK"}`}, `PUT vm.remove-device {"id":"a"}`, 204, ``},
		{"grow a disk", []string{create, boot, `PUT vm.add-disk {"id":"a","path":"DISK"}`}, `PUT vm.resize-disk {"id":"a","desired_size":2097152}`, 204, ``},

		{"more CPUs", []string{create, boot}, `PUT vm.resize {"desired_vcpus":4}`, 204, ``},
		{"more CPUs than it may have", []string{create, boot}, `PUT vm.resize {"desired_vcpus":5}`, 500, `["Error from API","The VM could not be resized","Error from CPU manager",`},
		{"more memory", []string{create, boot}, `PUT vm.resize {"desired_ram":268435456}`, 204, ``},
		{"more memory by an odd size", []string{create, boot}, `PUT vm.resize {"desired_ram":134217729}`, 500, `["Error from API","The VM could not be resized","Memory manager error",`},
		{"more memory than it may have", []string{create, boot}, `PUT vm.resize {"desired_ram":1073741824}`, 500, `["Error from API","The VM could not be resized","Memory manager error",`},
		{"less memory is no error", []string{create, boot}, `PUT vm.resize {"desired_ram":67108864}`, 204, ``},

		{"a snapshot of what runs", []string{create, boot}, `PUT vm.snapshot {"destination_url":"file://DIR"}`, 500, `["Error from API","The VM could not be snapshotted","Cannot snapshot VM",`},
		{"a snapshot", []string{create, boot, pause}, `PUT vm.snapshot {"destination_url":"file://DIR"}`, 204, ``},
		{"a snapshot into nothing", []string{create, boot, pause}, `PUT vm.snapshot {"destination_url":"file://DIR/none"}`, 500, `["Error from API","The VM could not be snapshotted","Cannot send VM snapshot",`},
		{"a snapshot over another", []string{create, boot, pause, `PUT vm.snapshot {"destination_url":"file://DIR"}`}, `PUT vm.snapshot {"destination_url":"file://DIR"}`, 500,
			`["Error from API","The VM could not be snapshotted","Cannot send VM snapshot",`},
		{"restore over another", []string{create}, `PUT vm.restore {"source_url":"file://DIR"}`, 500, `["Error from API","The VM could not be restored","VM is already created"]`},
		{"restore of nothing", nil, `PUT vm.restore {"source_url":"file://DIR"}`, 500, `["Error from API","The VM could not be restored","Cannot restore VM",`},

		{"a body that is too big", nil, "PUT vm.create " + strings.Repeat(" ", 51201), 400, "{ \"error\": \"Request payload with size 51201 is larger than the limit of 51200 allowed by server."},
		{"a body that is just not", nil, "PUT vm.create " + strings.Repeat(" ", 51200-2) + "{}", 204, ``},
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
				body = strings.NewReplacer("DISK", p.disk("disk"), "OTHER", p.disk("other"), "DIR", p.dir).Replace(body)
				status, text := p.do(method, action, body)
				if p.genuine && strings.Contains(text, noMemory) {
					t.Skipf("the KVM of this machine does not tell what a machine's memory is to be kept with: %s", text)
				}
				return status, text
			}
			for _, line := range tt.before {
				if status, body := ask(line); status/100 != 2 {
					t.Fatalf("%s = %d %s", line, status, body)
				}
			}
			status, body := ask(tt.ask)
			if status != tt.status || !strings.HasPrefix(body, tt.body) || tt.body == "" && body != "" {
				t.Errorf("%.80s = %d %s, want %d %s", tt.ask, status, body, tt.status, tt.body)
			}
		})
	}
}

func TestWhatTheStubDoesNotPlayItSays(t *testing.T) {
	if status, body := play(t).do("PUT", "vm.add-fs", "{}"); status != 500 || !strings.HasPrefix(body, `["Error from API","vmmstub does not play`) {
		t.Errorf("vm.add-fs = %d %s", status, body)
	}
}

// disk is a file of 1 MiB that is made once.
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
		want := fmt.Sprintf(`{"build_version":"v53.0","version":"53.0.0","pid":%d,"features":["io_uring","kvm"]}`, p.cmd.Process.Pid)
		if p.genuine { // of whatever version
			body = regexp.MustCompile(`("build_version":)"v[0-9.]+[^"]*",("version":)"[0-9.]+"`).ReplaceAllString(body, `$1"v53.0",$2"53.0.0"`)
		}
		if status != 200 || body != want {
			t.Errorf("vmm.ping = %d %s, want %s", status, body, want)
		}
	})
}

// What a driver has to know: the error of create does not mean that there is nothing.
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
