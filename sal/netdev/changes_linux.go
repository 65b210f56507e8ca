package netdev

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"writ"

	"writ/sal"
)

// changes announces and lists the changes that an operation makes to the host.
type changes struct {
	before func(name string) // Driver.Step
	drift  []sal.Drift       // differences from the records
}

// step is called before every single change.
func (c *changes) step(name string) {
	if c.before != nil {
		c.before(name)
	}
}

// repaired adds a drift that the operation repairs.
func (c *changes) repaired(format string, args ...any) {
	c.drift = append(c.drift, sal.Drift{What: fmt.Sprintf(format, args...), Mended: true})
}

// asDrift returns the drift. It converts RESOURCE_CONFLICT, which only an operator can resolve, to a further drift. It
// returns any other error as an error.
func (c *changes) asDrift(err error) ([]sal.Drift, error) {
	if e, ok := errors.AsType[*writ.Error](err); ok && e.Code == writ.CodeResourceConflict {
		return append(c.drift, sal.Drift{What: e.Message}), nil
	}
	return c.drift, failed("repair a network", err)
}

// set writes a kernel setting, unless the setting already has that value.
func (c *changes) set(path, value string) error {
	now, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(now)) == value {
		return err
	}
	c.step("set " + path)
	return os.WriteFile(path, []byte(value), 0o644)
}
