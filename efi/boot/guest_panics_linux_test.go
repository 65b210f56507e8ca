package boot_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ/efi/boot"
	"writ/internal/test/testenv"
)

// breakMachine stops the first process or makes the kernel panic, as the command line requests.
func breakMachine() {
	cmdline, err := os.ReadFile("/proc/cmdline")
	const frozen = "/sys/fs/cgroup/frozen"
	left, _ := filepath.Glob("/sys/fs/pstore/*")
	switch {
	case err != nil:
	case len(left) > 0:
		err = fmt.Errorf("the last words of a kernel were not deleted: %v", left)
	case strings.Contains(string(cmdline), "test.break=stop"):
		err = errors.Join(os.Mkdir(frozen, 0o755), os.WriteFile(frozen+"/cgroup.procs", []byte("1"), 0), os.WriteFile(frozen+"/cgroup.freeze", []byte("1"), 0))
	default:
		err = os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	select {}
}

// patience is the timeout for output of the machine on a busy host.
const patience = 5 * time.Minute

// brokenImage writes an image with a service that breaks its machine, and an empty store for firmware variables.
func brokenImage(t *testing.T, kernel testenv.KernelFiles) (node, vars string) {
	t.Helper()
	made := guestImage(t, kernel, []boot.Service{{Name: "breaker", Command: []string{boot.Program, "breaker"}, Socket: serviceSocket}})
	dir := t.TempDir()
	node, vars = filepath.Join(dir, "node.efi"), filepath.Join(dir, "vars.fd")
	text, err := os.ReadFile(testenv.Unpacked(t, testenv.FirmwareVars))
	if err := errors.Join(err, os.WriteFile(node, made.Data, 0o600), os.WriteFile(vars, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return node, vars
}

// broken is a machine with firmware that breaks at each start.
type broken struct {
	t     *testing.T
	qmp   string
	lines chan string // of the serial line
	said  bytes.Buffer
	ended chan error
}

func startBroken(t *testing.T, kernel, vars, words string, args ...string) *broken {
	t.Helper()
	b := &broken{t: t, qmp: filepath.Join(t.TempDir(), "qmp"), lines: make(chan string, 1<<16), ended: make(chan error, 1)}
	cmd := exec.Command(testenv.Need(t, "qemu-system-x86_64"), append([]string{"-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio",
		"-machine", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1024", "-qmp", "unix:" + b.qmp + ",server=on,wait=off",
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + testenv.Unpacked(t, testenv.FirmwareCode), "-drive", "if=pflash,format=raw,unit=1,file=" + vars,
		"-kernel", kernel, "-append", "console=ttyS0 quiet panic=1 no_timer_check unknown_nmi_panic writ.join=" + guestToken + " writ.watchdog=10 " + words, "-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,romfile="}, args...)...)
	serial, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(b.lines)
		for lines := bufio.NewScanner(serial); lines.Scan(); {
			b.lines <- strings.ReplaceAll(lines.Text(), "\r", "")
		}
		b.ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for line := range b.lines {
			b.said.WriteString(line + "\n")
		}
		t.Logf("the machine said:\n%s", b.said.String())
	})
	return b
}

// await reads output until a line contains text. No earlier line may contain any of not.
func (b *broken) await(text string, not ...string) {
	b.t.Helper()
	for late := time.After(patience); ; {
		select {
		case line, ok := <-b.lines:
			b.said.WriteString(line + "\n")
			if strings.Contains(line, text) {
				return
			}
			for _, other := range not {
				if strings.Contains(line, other) {
					b.t.Fatalf("output %q before %q", line, text)
				}
			}
			if !ok {
				b.t.Fatalf("the machine ended before %q", text)
			}
		case <-late:
			b.t.Fatalf("no output %q", text)
		}
	}
}

// do sends a command to QEMU.
func (b *broken) do(command string) {
	b.t.Helper()
	conn, err := net.Dial("unix", b.qmp)
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, `{"execute": "qmp_capabilities"}{"execute": %q}`, command)
	answers := json.NewDecoder(conn)
	for done := 0; err == nil && done < 2; {
		var answer map[string]any // or an event
		err = answers.Decode(&answer)
		if answer["error"] != nil {
			b.t.Fatalf("%s: %v", command, answer)
		}
		if answer["return"] != nil {
			done++
		}
	}
	if err != nil {
		b.t.Fatalf("%s: %v", command, err)
	}
}

// turnOff presses the power button and waits until the machine is off.
func (b *broken) turnOff() {
	b.t.Helper()
	b.do("system_powerdown")
	b.await("bye", "] service ")
	select {
	case err := <-b.ended:
		if err != nil {
			b.t.Errorf("the machine ended: %v", err)
		}
	case <-time.After(patience):
		b.t.Fatal("the machine does not turn off")
	}
}

// The watchdog restarts a machine whose first process is stopped. The next start shows the kernel's log. After the same
// failure again, the machine is held and starts no service until it is turned off and on.
func TestAMachineThatHangsIsRestartedAndHeldTheSecondTime(t *testing.T) {
	testenv.Nightly(t, "TestKernelThatPanicsAfterTwoStartsIsHeld, TestAWatchdogGetsSignsOfLifeUntilTheMachineShouldBeOff and others have each part without a machine")
	node, vars := brokenImage(t, testenv.Kernel(t))
	b := startBroken(t, node, vars, "test.break=stop")
	b.await("watchdog Software Watchdog restarts the machine if it hangs for 10 s", "error:")
	b.await("service  breaker started as process")
	b.await("] start ")
	b.await("  kernel: Kernel panic - not syncing: Software Watchdog Timer expired")
	b.await("panic    error: the last start of this machine ended with: Kernel panic - not syncing: Software Watchdog Timer expired")
	b.await("service  breaker started as process")
	b.await("] start ")
	b.await("panic    error: the kernel panicked in the same way at the end of two starts: Kernel panic - not syncing: Software Watchdog Timer expired", "] service ")
	b.await("This machine is held at panic", "] service ")
	b.await("    goes on      not automatically: when the cause is removed, turn the machine", "] service ")
	b.do("inject-nmi")
	b.await("] start ")
	b.await("modules  button and evdev only", "] service ", "] network ")
	b.await("panic    error: the kernel panicked while this machine was held: Kernel panic - not syncing: NMI: Not continuing", "] service ", "] network ")
	b.await("This machine is held at panic", "] service ", "] network ")
	b.turnOff()

	b = startBroken(t, node, vars, "test.break=panic")
	b.await("service  breaker started as process", "panic    ", "error:")
	b.await("] start ")
	b.await("panic    error: the last start of this machine ended with: Kernel panic - not syncing: sysrq triggered crash")
	b.await("service  breaker started as process")
}

// A hardware watchdog restarts the machine even if the kernel is stuck, and reports that at the next start. No kernel
// log exists, but the machine is also held after the second reset, until it is turned off.
func TestAMachineThatHangsIsRestartedByItsHardware(t *testing.T) {
	testenv.Nightly(t, "TestAWatchdogGetsSignsOfLifeUntilTheMachineShouldBeOff has the signs of life")
	node, vars := brokenImage(t, testenv.FullKernel(t))
	b := startBroken(t, node, vars, "test.break=stop", "-device", "i6300esb", "-watchdog-action", "reset")
	b.await("watchdog i6300ESB timer restarts the machine if it hangs for 10 s", "error:")
	b.await("service  breaker started as process")
	b.await("] start ")
	b.await("watchdog error: the watchdog of this machine has restarted it: it hung", "panic    ")
	b.await("service  breaker started as process", "This machine is held")
	b.await("] start ")
	b.await("panic    error: the watchdog of this machine has restarted it at the end of two starts", "] service ")
	b.await("This machine is held at panic", "] service ")
	b.turnOff()

	b = startBroken(t, node, vars, "test.break=stop", "-device", "i6300esb", "-watchdog-action", "reset")
	b.await("service  breaker started as process", "panic    ", "error:")
}
