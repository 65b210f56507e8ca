package vmm

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"writ/internal/wake"
)

const help = `cloud-hypervisor, simulated by vmmstub: THIS IS NOT A HYPERVISOR. It answers tests like
cloud-hypervisor v53 or v54. It simulates guests, or runs them in QEMU if a QEMU program is set: by the variable %s, or
in the file %s beside this program.

  --api-socket PATH|path=PATH|fd=N   listen here
  --event-monitor path=PATH|fd=N     write events here
  --log-file PATH                    write the log here; default: standard error
  --no-shutdown                      continue after the guest has powered off
  --seccomp true|false|log|errno     ignored
  -v                                 log more; repeat it to log still more
  -V, --version
`

// warning is the first line of every log.
const warning = "vmmstub simulates cloud-hypervisor for tests: it is not a hypervisor"

// flags are the options of the command line.
type flags struct {
	socket, events, logFile string
	noShutdown              bool
	verbose                 int
	show                    string // "version" or "help" instead of a normal run
}

// Main runs the program and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	f, err := parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 2
	}
	program, err := os.Executable()
	if err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 1
	}
	release := releaseOf(program)
	switch f.show {
	case "version":
		fmt.Fprintf(stdout, "cloud-hypervisor %s\nMigration Protocol Versions: none, because vmmstub is not a hypervisor\n",
			release)
		return 0
	case "help":
		fmt.Fprintf(stdout, help, QEMUVar, SettingsName)
		return 0
	}
	umask()
	if err := run(f, program, release, stderr); err != nil {
		fmt.Fprintln(stderr, "Error: Cloud Hypervisor exited with the following chain of errors:")
		for i, text := range causes(err) {
			fmt.Fprintf(stderr, "  %d: %s\n", i, text)
		}
		return 1
	}
	return 0
}

func parse(args []string) (f flags, err error) {
	var ignored string
	values := map[string]*string{
		"--api-socket": &f.socket, "--event-monitor": &f.events, "--log-file": &f.logFile, "--seccomp": &ignored,
	}
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		if into := values[name]; into != nil {
			if !given {
				if i++; i == len(args) {
					return f, fmt.Errorf("a value is required for '%s' but none was supplied", name)
				}
				value = args[i]
			}
			*into = value
			continue
		}
		switch args[i] {
		case "--no-shutdown":
			f.noShutdown = true
		case "--version", "-V":
			f.show = "version"
		case "--help", "-h":
			f.show = "help"
		default:
			if strings.Trim(args[i], "v") != "-" {
				return f, fmt.Errorf("unexpected argument '%s' found", args[i])
			}
			f.verbose += len(args[i]) - 1
		}
	}
	return f, nil
}

// run simulates the program until the end of the process.
func run(f flags, program string, release Release, stderr io.Writer) error {
	log, closeLog, err := openLog(f, stderr)
	if err != nil {
		return wrap("Error opening log file", cause(err))
	}
	defer closeLog()
	v := &vmm{
		release: release, log: log, settings: settingsReader(program), noShutdown: f.noShutdown,
		reports: reports{heard: wake.New()}, over: make(chan struct{}),
	}
	log.Warn(warning, "pid", os.Getpid())
	if v.events, err = openMonitor(f.events, log); err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, guestOff, guestAgain, guestOver)
	v.events.tell("vmm", "starting")
	s := v.settings()
	if err := hold(s.HoldStart); err != nil {
		return err
	}
	if s.DieEarly {
		return chain{"Failed to start the VMM thread", "vmmstub exits early because of its settings"}
	}
	listener, done, err := listen(f.socket)
	if err != nil {
		return append(chain{"Failed to start the VMM thread"}, causes(err)...)
	}
	defer done()
	server := &server{vmm: v, listener: listener, open: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(server.serve)
	v.loop(signals)
	server.stop()
	serving.Wait()
	return nil
}

func openLog(f flags, stderr io.Writer) (*slog.Logger, func(), error) {
	level := slog.LevelWarn - slog.Level(4*min(f.verbose, 2))
	if f.logFile == "" {
		return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})), func() {}, nil
	}
	file, err := os.Create(f.logFile)
	if err != nil {
		return nil, nil, err
	}
	return slog.New(slog.NewTextHandler(file, &slog.HandlerOptions{Level: level})), func() { _ = file.Close() }, nil
}

// splitCommas splits a value like the real program: at commas outside of quotes and brackets.
func splitCommas(text string) (parts []string, err error) {
	var part strings.Builder
	brackets, quoted := 0, false
	for _, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[':
			brackets++
		case c == ']':
			brackets--
		case c == ',' && brackets == 0:
			parts = append(parts, part.String())
			part.Reset()
			continue
		}
		if brackets < 0 {
			break
		}
		part.WriteRune(c)
	}
	if quoted || brackets != 0 {
		return nil, errorf("invalid syntax: %s", text)
	}
	return append(parts, part.String()), nil
}

func openMonitor(where string, log *slog.Logger) (*monitor, error) {
	m := &monitor{log: log, start: time.Now()}
	parts, err := splitCommas(where)
	if err != nil {
		return nil, wrap("Error parsing --event-monitor", err)
	}
	key, value, _ := strings.Cut(parts[0], "=")
	switch {
	case where == "":
	case len(parts) > 1:
		return nil, chain{"Error parsing --event-monitor", "unknown option: " + parts[1]}
	case key == "path":
		file, err := os.OpenFile(value, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, wrap("Error monitoring events", cause(err))
		}
		m.file = file
	case key == "fd":
		n, err := strconv.Atoi(value)
		if err != nil {
			return nil, wrap("Error parsing --event-monitor", err)
		}
		syscall.CloseOnExec(n) // the guest must not inherit it
		m.file = os.NewFile(uintptr(n), "event-monitor")
	default:
		return nil, errorf("Error parsing --event-monitor: path or fd required")
	}
	return m, nil
}

// listen opens the API socket: an inherited socket, or a new one at a path. For a path, it first takes the lock and
// removes a stale socket. A clean shutdown removes the socket; the lock file stays.
func listen(where string) (net.Listener, func(), error) {
	if text, found := strings.CutPrefix(where, "fd="); found {
		fd, err := strconv.Atoi(text)
		if err != nil {
			return nil, nil, wrap("Error parsing --api-socket", err)
		}
		file := os.NewFile(uintptr(fd), "api-socket")
		listener, err := net.FileListener(file)
		_ = file.Close()
		if err != nil {
			return nil, nil, wrap("Error creating API server", err)
		}
		return listener, func() {}, nil
	}
	path := strings.TrimPrefix(where, "path=")
	if path == "" {
		return nil, nil, errors.New("vmmstub needs --api-socket: it takes no machine from the command line")
	}
	held, err := lockSocket(path)
	switch {
	case errors.Is(err, errLocked):
		return nil, nil, errorf("API socket %q is already in use by another running instance", path)
	case err != nil:
		return nil, nil, wrap("Error creation API server's socket", cause(err))
	}
	_ = os.Remove(path) // the lock is free, so the socket is stale
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		_ = held.Close()
		return nil, nil, wrap("Error creation API server's socket", cause(err))
	}
	listener.SetUnlinkOnClose(false)
	return listener, func() {
		_ = os.Remove(path)
		_ = held.Close()
	}, nil
}
