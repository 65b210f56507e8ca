package boot

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"writ/efi/progress"
)

// Layout of an input event in the kernel's input.h: two words of time, then type, code and value.
const (
	eventSize = 24
	eventKey  = 1
	keyPower  = 116
)

// isPowerPressed reports whether an event is a press of the power button.
func isPowerPressed(event []byte) bool {
	return len(event) == eventSize && binary.NativeEndian.Uint16(event[16:]) == eventKey &&
		binary.NativeEndian.Uint16(event[18:]) == keyPower &&
		binary.NativeEndian.Uint32(event[20:]) == 1
}

// watchPowerButton turns the machine off when its power button is pressed. Hypervisors use the button to request a
// shutdown.
func (m *machine) watchPowerButton(ctx context.Context, off func(ending)) {
	names, _ := filepath.Glob("/sys/class/input/event*/device/name")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(text), "Power Button") {
			continue
		}
		device, err := os.Open(filepath.Join("/dev/input", filepath.Base(filepath.Dir(filepath.Dir(name)))))
		if err != nil {
			m.Fail("button", err)
			continue
		}
		context.AfterFunc(ctx, func() { device.Close() })
		go func() { // ends when the device is closed
			event := make([]byte, eventSize)
			for {
				n, err := device.Read(event)
				if err != nil {
					return
				}
				if isPowerPressed(event[:n]) {
					off(ending{"the power button was pressed", unix.LINUX_REBOOT_CMD_POWER_OFF})
				}
			}
		}()
	}
}

// offLimit limits the shutdown. The watchdog gets no more signs of life after the same time.
var offLimit = progress.Limit{Most: offWithin, Then: "it is turned off by force"}

// atLast calls `end` if the shutdown exceeds its limit, for example because of an unkillable process or an unresponsive
// disk. The returned function cancels it.
func (m *machine) atLast(end func()) (ended func() bool) {
	return time.AfterFunc(offLimit.Most, func() {
		m.Show(progress.StageOff, "the shutdown did not complete within "+offLimit.Most.String()+": "+offLimit.Then)
		time.AfterFunc(showWithin, end)
	}).Stop
}
