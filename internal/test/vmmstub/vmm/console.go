package vmm

import (
	"fmt"
	"io"
	"os"
)

// consoles are the outputs of the guest's console and serial port.
type consoles struct {
	opened          bool
	console, serial *os.File // nil discards the output
}

// open opens the outputs of a configuration, unless they are open.
func (c *consoles) open(config *vmConfig) (err error) {
	if c.opened {
		return nil
	}
	c.opened = true
	if c.console, err = openConsole(config.Console.consoleCommon); err == nil {
		c.serial, err = openConsole(config.Serial.consoleCommon)
	}
	if err != nil {
		c.close()
		return wrap("Error creating console devices", err)
	}
	return nil
}

func openConsole(c consoleCommon) (*os.File, error) {
	switch c.Mode {
	case "Off", "Null":
		return nil, nil
	case "Tty":
		return os.Stdout, nil
	case "File":
		if c.File == nil {
			return nil, nil // vm.boot reports the error; the real program crashes here
		}
		f, err := os.Create(*c.File)
		if err != nil {
			return nil, wrap("Error creating console device", cause(err))
		}
		return f, nil
	default:
		return nil, fmt.Errorf("vmmstub has no console of mode %s", c.Mode)
	}
}

func (c *consoles) write(text string) {
	for _, f := range []*os.File{c.console, c.serial} {
		if f != nil {
			_, _ = io.WriteString(f, text) // a full disk must not stop the machine
		}
	}
}

func (c *consoles) close() {
	for _, f := range []*os.File{c.console, c.serial} {
		if f != nil && f != os.Stdout {
			_ = f.Close()
		}
	}
	*c = consoles{}
}
