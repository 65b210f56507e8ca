// Command init is the only program of a test guest. It reads its addresses from the kernel's command line or from a
// NoCloud disk. It reports on its console when it is up, and reports its disks, CPUs and memory when they change. It
// powers off when its power button is pressed.
//
// Kernel command line: writ.address=ADDRESS/BITS, writ.gateway=ADDRESS, writ.act=reboot|panic|poweroff (as soon as it
// is up).
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// order lists the modules in load order: a module depends only on earlier modules.
const order = "/modules/order"

// program is the file of a guest.Program.
const program = "/program"

// deviceTimeout limits the wait for a device after its driver was loaded. Emulation is slow.
const deviceTimeout = 20 * time.Second

func main() {
	if err := run(); err != nil {
		say("failed: %v", err)
	}
	select {} // a kernel panics when its first process ends
}

func say(format string, args ...any) { fmt.Printf("guest: "+format+"\n", args...) }

func run() error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := os.MkdirAll(m[1], 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	modules, err := os.ReadFile(order)
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(modules)) {
		if err := load("/modules/" + name + ".ko"); err != nil {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	if _, err := os.Stat(program); err == nil {
		return carryOut()
	}
	pressed, err := watchButton()
	if err != nil {
		return err
	}
	command := commandLine()
	name, err := configure(command)
	if err != nil {
		say("its network is not configured: %v", err)
	}
	if err := plugMemory(); err != nil {
		say("it cannot get more memory: %v", err)
	}
	seen, plugged := tellDisks(nil), tellPlugged("")
	say("%s is up", name)
	switch command["writ.act"] {
	case "reboot":
		return unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	case "panic":
		return os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0)
	case "poweroff":
		return powerOff()
	}
	for look := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-pressed:
			say("the power button was pressed")
			return powerOff()
		case <-look.C:
			seen, plugged = tellDisks(seen), tellPlugged(plugged)
		}
	}
}

// carryOut runs the program and powers off.
func carryOut() error {
	err := unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, "")
	if err == nil {
		var args []byte
		args, err = os.ReadFile("/arguments")
		cmd := exec.Command(program, strings.Split(string(args), "\n")...)
		cmd.Stdout, cmd.Stderr, cmd.Dir = os.Stdout, os.Stderr, "/tmp"
		err = errors.Join(err, cmd.Run())
	}
	if err != nil {
		say("the program has ended: %v", err)
	} else {
		say("the program has ended")
	}
	return powerOff()
}

func powerOff() error {
	unix.Sync()
	return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

func commandLine() map[string]string {
	text, _ := os.ReadFile("/proc/cmdline")
	words := map[string]string{}
	for word := range strings.FieldsSeq(string(text)) {
		key, value, _ := strings.Cut(word, "=")
		words[key] = value
	}
	return words
}

// watchButton reads all input devices and signals when the power key of one is pressed.
func watchButton() (<-chan struct{}, error) {
	paths, err := waitFor("/dev/input/event*")
	if err != nil {
		return nil, fmt.Errorf("find the power button: %w", err)
	}
	pressed := make(chan struct{}, len(paths))
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		go func() {
			defer f.Close()
			const power = 116
			for {
				var e struct {
					Seconds, Micros int64
					Kind, Code      uint16
					Value           int32
				}
				if err := binary.Read(f, binary.LittleEndian, &e); err != nil {
					return
				}
				if e.Kind == unix.EV_KEY && e.Code == power && e.Value == 1 {
					pressed <- struct{}{}
					return
				}
			}
		}()
	}
	return pressed, nil
}

// waitFor waits until a file matches a pattern.
func waitFor(pattern string) ([]string, error) {
	for end := time.Now().Add(deviceTimeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if paths, err := filepath.Glob(pattern); err != nil || len(paths) > 0 {
			return paths, err
		}
	}
	return nil, fmt.Errorf("%s: %w", pattern, fs.ErrNotExist)
}

// tellDisks reports new, resized and removed disks, compared with `before`, and returns the current disks.
func tellDisks(before map[string]int64) map[string]int64 {
	now := map[string]int64{}
	paths, _ := filepath.Glob("/sys/block/vd*")
	for _, path := range paths {
		sectors, err := number(filepath.Join(path, "size"))
		if err != nil {
			continue // the disk has just been removed
		}
		name := filepath.Base(path)
		if now[name] = sectors * 512; now[name] != before[name] {
			say("disk %s %d", name, now[name])
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			say("disk %s is gone", name)
		}
	}
	return now
}

func number(path string) (n int64, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(string(text), &n)
	return n, err
}
