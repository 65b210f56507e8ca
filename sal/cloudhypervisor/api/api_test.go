package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ/internal/test/testenv"
)

// serve answers every request with a status and a body. It returns the API and the received requests.
func serve(t *testing.T, status int, answer string) (*VMM, *[]string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		asked = append(asked, fmt.Sprintf("%s %s %s", r.Method, r.URL, text))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	v := Open(socket)
	t.Cleanup(v.Close)
	return v, &asked
}

func TestRequestsLookAsTheProgramWantsThem(t *testing.T) {
	v, asked := serve(t, http.StatusNoContent, "")
	ctx := t.Context()
	for _, err := range []error{
		v.Boot(ctx), v.Pause(ctx), v.CutOff(ctx), v.PressPowerButton(ctx),
		v.Create(ctx, Config{CPUs: CPUs{BootVcpus: 1, MaxVcpus: 2}, Memory: Memory{Size: 1 << 30}, Payload: Payload{Kernel: "/k"},
			Disks:  []Disk{{ID: "a", Path: "/a", ImageType: "Raw", Readonly: true}},
			Serial: Console{Mode: "File", File: "/c"}, Console: Console{Mode: "Off"}}),
		v.RemoveDevice(ctx, "a"), v.Snapshot(ctx, "/dir"), v.Restore(ctx, "/dir", true), v.Resize(ctx, Resize{DesiredVcpus: 4}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	want := []string{ // actions have no body: the program rejects {}
		"PUT /api/v1/vm.boot ",
		"PUT /api/v1/vm.pause ",
		"PUT /api/v1/vm.shutdown ",
		"PUT /api/v1/vm.power-button ",
		`PUT /api/v1/vm.create {"console":{"mode":"Off"},"cpus":{"boot_vcpus":1,"max_vcpus":2,"nested":false},` +
			`"disks":[{"id":"a","image_type":"Raw","path":"/a","readonly":true}],"memory":{"size":1073741824},"payload":{"kernel":"/k"},` +
			`"serial":{"file":"/c","mode":"File"}}`,
		`PUT /api/v1/vm.remove-device {"id":"a"}`,
		`PUT /api/v1/vm.snapshot {"destination_url":"file:///dir"}`,
		`PUT /api/v1/vm.restore {"resume":true,"source_url":"file:///dir"}`,
		`PUT /api/v1/vm.resize {"desired_vcpus":4}`,
	}
	if diff := cmp.Diff(want, *asked); diff != "" {
		t.Error(diff)
	}
}

func TestRefusalsKeepTheProgramsWords(t *testing.T) {
	for _, tt := range []struct {
		status       int
		answer, want string
	}{
		{500, `["Error from API","The VM could not boot","no kernel"]`, "vm.boot: Error from API: The VM could not boot: no kernel (status 500)"},
		{400, "", "vm.boot: status 400"},
		{503, `no list`, "vm.boot: no list (status 503)"},
	} {
		v, _ := serve(t, tt.status, tt.answer)
		err := v.Boot(t.Context())
		refusal, ok := errors.AsType[*Refusal](err)
		if !ok || refusal.Status != tt.status || err.Error() != tt.want {
			t.Errorf("%d %q: %v, want %s", tt.status, tt.answer, err, tt.want)
		}
	}
}

func TestProcessThatEndsMayAnswerAnySuccess(t *testing.T) {
	for _, status := range []int{200, 204} {
		v, _ := serve(t, status, "")
		if err := v.EndProcess(t.Context()); err != nil {
			t.Errorf("%d: %v", status, err)
		}
		if err := v.AddDisk(t.Context(), Disk{}); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestInfoReadsStateAndRejectsInvalid(t *testing.T) {
	v, _ := serve(t, 200, `{"state":"Running","config":{"cpus":{"boot_vcpus":2,"max_vcpus":8,"topology":null},"memory":{"size":5}},"device_tree":{"d":{"id":"d","pci_bdf":null}}}`)
	info, err := v.Info(t.Context())
	if err != nil || info.State != StateRunning || info.Config.CPUs.BootVcpus != 2 || info.DeviceTree["d"].ID != "d" {
		t.Errorf("%+v, %v", info, err)
	}
	v, _ = serve(t, 200, "")
	if _, err := v.Info(t.Context()); err == nil {
		t.Errorf("an answer without a body: %v", err)
	}
	v, _ = serve(t, 200, `{"state":"`+strings.Repeat("x", maxAnswer)+`"}`)
	if _, err := v.Info(t.Context()); err == nil {
		t.Error("it reads answers without an end")
	}
}

func TestRequestEndsWithItsContext(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // never accepts
	v := Open(socket)
	defer v.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Ping(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// The guest may have taken over the process.
func TestProtocolSwitchEndsRequests(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	testenv.SwitchingServer(t, l)
	v := Open(socket)
	defer v.Close()
	err = testenv.End(t, func() error { _, err := v.Ping(t.Context()); return err })
	if err == nil {
		t.Error("the answer counts as a version")
	}
}
