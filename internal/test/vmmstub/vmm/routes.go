package vmm

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// root is the prefix of every path.
const root = "/api/v1/"

// action is a path of the API. Paths must match exactly, without query or trailing slash.
type action struct {
	method string
	body   bool   // a body is required, otherwise it is forbidden
	lax    bool   // a body is allowed but not required
	empty  int    // status of a success without a body
	text   string // prefix of the error
	do     func(v *vmm, body []byte) (any, error)
}

var actions = map[string]action{
	"vmm.ping":     {http.MethodGet, false, true, 204, "", ping},
	"vmm.shutdown": {http.MethodPut, false, true, 200, "The VMM could not shutdown", plain((*vmm).end)},

	"vm.info":     {http.MethodGet, false, true, 204, "The VM info is not available", info},
	"vm.counters": {http.MethodGet, false, true, 204, "The VM info is not available", counters},

	"vm.create":       {http.MethodPut, true, false, 204, "The VM could not be created", create},
	"vm.boot":         {http.MethodPut, false, false, 204, "The VM could not boot", plain((*vmm).boot)},
	"vm.delete":       {http.MethodPut, false, false, 204, "The VM could not be deleted", plain((*vmm).delete)},
	"vm.shutdown":     {http.MethodPut, false, false, 204, "The VM could not shutdown", plain((*vmm).shutdown)},
	"vm.reboot":       {http.MethodPut, false, false, 204, "The VM could not reboot", plain((*vmm).reboot)},
	"vm.power-button": {http.MethodPut, false, false, 204, "Error triggering power button", pressPowerButton},
	"vm.nmi":          {http.MethodPut, false, false, 204, "Error triggering NMI", onMachine((*machine).interrupt)},
	"vm.pause":        {http.MethodPut, false, false, 204, "The VM could not be paused", onMachine((*machine).pause)},
	"vm.resume":       {http.MethodPut, false, false, 204, "The VM could not resume", onMachine((*machine).resume)},

	"vm.resize":      {http.MethodPut, true, false, 204, "The VM could not be resized", resizeMachine},
	"vm.resize-disk": {http.MethodPut, true, false, 204, "The disk could not be resized", resizeDisk},
	"vm.add-disk":    {http.MethodPut, true, false, 204, "The disk could not be added to the VM", addDisk},
	"vm.add-net": {
		http.MethodPut, true, false, 204, "The network device could not be added to the VM", addNet,
	},
	"vm.remove-device": {
		http.MethodPut, true, false, 204, "The device could not be removed from the VM", removeDevice,
	},
	"vm.snapshot": {http.MethodPut, true, false, 204, "The VM could not be snapshotted", saveMachine},
	"vm.restore":  {http.MethodPut, true, false, 204, "The VM could not be restored", restoreMachine},
}

// plain is an action without bodies in request and answer.
func plain(do func(v *vmm) error) func(*vmm, []byte) (any, error) {
	return func(v *vmm, _ []byte) (any, error) { return nil, do(v) }
}

// onMachine is like plain. It returns errNotRunning if no machine is booted.
func onMachine(do func(vm *machine) error) func(*vmm, []byte) (any, error) {
	return plain(func(v *vmm) error {
		if v.vm == nil {
			return errNotRunning
		}
		return do(v.vm)
	})
}

// unplayed lists API paths of the real program that the stub rejects.
var unplayed = []string{"vm.add-device", "vm.add-fs", "vm.add-generic-vhost-user", "vm.add-pmem", "vm.add-user-device",
	"vm.add-vdpa",
	"vm.add-vsock", "vm.receive-migration", "vm.resize-zone", "vm.send-migration"}

// answer executes one request. The caller must hold v.thread.
func (v *vmm) answer(method, path string, asked []byte) (int, []byte, *failure) {
	name, inside := strings.CutPrefix(path, root)
	a, known := actions[name]
	switch {
	case inside && slices.Contains(unplayed, name):
		return 0, nil, refusal(v.release, "vmmstub does not play "+name, errors.New("it is not a hypervisor"))
	case !inside || !known:
		return 0, nil, notFound
	case method != http.MethodGet && method != http.MethodPut,
		name == "vm.create" && method == http.MethodPut && len(asked) == 0:
		return 0, nil, &failure{Status: 400}
	case method != a.method, a.body && len(asked) == 0, !a.body && !a.lax && len(asked) > 0:
		return 0, nil, badRequest
	}
	given, err := v.settings().misbehave(name, func() (any, error) { return a.do(v, asked) })
	if err != nil {
		if f, ok := errors.AsType[*failure](err); ok {
			return 0, nil, f
		}
		return 0, nil, refusal(v.release, a.text, err)
	}
	text, err := body(given)
	switch {
	case err != nil:
		return 0, nil, &failure{Status: 500, Chain: []string{"Internal Server Error"}}
	case text == nil:
		return a.empty, nil, nil
	}
	return 200, text, nil
}

// body encodes the result of an action; nil has no body.
func body(answer any) ([]byte, error) {
	if answer == nil {
		return nil, nil
	}
	return json.Marshal(answer)
}
