package placement

import (
	"fmt"
	"slices"
	"strings"

	"writ"
)

// maxDevices limits the offered devices in a reason.
const maxDevices = 8

// noInit is the reason against a node without an init program.
const noInit = "has no init program for containers"

// containers returns the container driver of a node, or nil. Callers assume that a simulated driver has an init
// program, and all devices if it reports none.
func (c *Candidate) containers() *writ.NodeDriver {
	i := slices.IndexFunc(c.Drivers, func(d writ.NodeDriver) bool { return d.Module == "container" })
	if i < 0 {
		return nil
	}
	return &c.Drivers[i]
}

// refuseParts returns the reason why a node lacks the init program or devices of a request, or an empty code. It does
// not refuse a node without a container driver, because the node may not have reported yet.
func refuseParts(init bool, devices []string, c *Candidate) writ.NodeVerdict {
	d := c.containers()
	if d == nil {
		return writ.NodeVerdict{}
	}
	if init && !d.Init && !d.Simulated {
		return unsuitable(writ.VerdictNoDriver, noInit)
	}
	if d.Simulated && len(d.Devices) == 0 {
		return writ.NodeVerdict{}
	}
	var missing []string
	for _, name := range devices {
		if !slices.Contains(d.Devices, name) && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return writ.NodeVerdict{}
	}
	offers := "none"
	if n := len(d.Devices); n > maxDevices {
		offers = fmt.Sprintf("%s and %d more", strings.Join(d.Devices[:maxDevices], ", "), n-maxDevices)
	} else if n > 0 {
		offers = strings.Join(d.Devices, ", ")
	}
	word := "device"
	if len(missing) > 1 {
		word = "devices"
	}
	return unsuitable(writ.VerdictNoDevice,
		"does not offer the "+word+" "+strings.Join(missing, ", ")+", it offers "+offers)
}

// PartError returns the error of a call whose container is on a node that lacks these parts, or nil.
func PartError(init bool, devices []string, c *Candidate) *writ.Error {
	against := refuseParts(init, devices, c)
	why := c.Name + " " + against.Reason
	switch against.Code {
	case writ.VerdictNoDriver:
		return writ.Errorf(writ.CodeNoCapacity, "%s", why).
			WithHint("omit init, or ask the operator of the node to install the package catatonit and to restart the runner")
	case writ.VerdictNoDevice:
		return deviceError([]writ.NodeVerdict{against}, why)
	}
	return nil
}

// deviceError returns the error of calls if all nodes lack only devices. It returns nil if a node is unsuitable for
// another reason.
func deviceError(unsuitable []writ.NodeVerdict, why string) *writ.Error {
	other := func(a writ.NodeVerdict) bool { return a.Code != writ.VerdictNoDevice }
	if len(unsuitable) == 0 || slices.ContainsFunc(unsuitable, other) {
		return nil
	}
	return writ.Errorf(writ.CodeDeviceForbidden, "%s", why).WithHint("%s", deviceHint)
}

const deviceHint = "use a device that a node offers; the operator of a node offers devices with `writ runner --device`, " +
	"and `writ doctor` on the node finds missing ones"
