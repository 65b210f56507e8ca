package boot

import "testing"

func TestOnlyThePowerButtonTurnsOff(t *testing.T) {
	pressed := append(make([]byte, 16), 1, 0, 116, 0, 1, 0, 0, 0)
	if !isPowerPressed(pressed) {
		t.Error("the button does not count")
	}
	for name, event := range map[string][]byte{
		"released": append(make([]byte, 16), 1, 0, 116, 0, 0, 0, 0, 0), "another key": append(make([]byte, 16), 1, 0, 30, 0, 1, 0, 0, 0),
		"no key": append(make([]byte, 16), 0, 0, 116, 0, 1, 0, 0, 0), "cut": pressed[:20],
	} {
		if isPowerPressed(event) {
			t.Errorf("an event that is %s turns the machine off", name)
		}
	}
}
