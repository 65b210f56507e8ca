package boot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"writ/efi/modules"
	"writ/efi/progress"
)

// endLimit is how long a program may take to end.
var endLimit = waitLimit{30 * time.Second, "it is ended by force"}

// showWithin is how long the consoles may take to show the last lines.
const showWithin = 2 * time.Second

// machine is one that runs.
type machine struct {
	*Machine
	consoles
	config    Config
	loader    *loader
	network   network
	processes processes
	watchdog  watchdog
	lastEnd   lastEnd
	work      sync.WaitGroup // what ends when the machine is turned off, the runner too
	services  sync.WaitGroup // programs of the image that the runner needs until it has ended
	reports   *reports
	logs      *logs
	status    *status
	failing   chan struct{}                   // has one if the runner has said what does not work
	complaint atomic.Pointer[progress.Report] // the last error of the runner
}

// Main starts the machine and runs it until it is turned off. It never returns: a machine without its first process stops.
func (m *Machine) Main() {
	moved := moveRoot()
	reports := newReports(m.Redact)
	run := &machine{Machine: m, consoles: consoles{since: uptime}, reports: reports, logs: newLogs(m.Redact), failing: make(chan struct{}, 1)}
	run.kept = run.logs.stage
	run.status = &status{consoles: &run.consoles, version: withImage(m.Version), admission: m.Admission, addresses: run.network.String, cards: run.network.waiting}
	run.told = func(r progress.Report) {
		r.Text = m.Redact(r.Text)
		run.status.note(r)
		reports.add(r)
	}
	how := run.run(moved)
	run.stage("off", "bye")
	run.close(showWithin)
	unix.Sync()
	_ = run.watchdog.disarm() // else it would restart the machine, which is what is left then
	_ = unix.Reboot(how)
	select {} // until the firmware has done it
}

// withImage adds the version of the image to that of the program, as the image has it.
func withImage(version string) string {
	text, _ := os.ReadFile("/etc/os-release") // an image of an earlier version has none
	for line := range strings.Lines(string(text)) {
		if image, ok := strings.CutPrefix(strings.TrimSpace(line), "IMAGE_VERSION="); ok {
			return version + ", image " + image
		}
	}
	return version
}

func uptime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// run is the life of the machine, whose root directory was moved if there was no error. It returns the command for reboot(2) with which it ends.
func (m *machine) run(moved error) (how int) {
	failed := mountAll()
	for _, device := range openConsoles() {
		m.add(device)
	}
	m.stage("start", "writ %s on Linux %s", m.Version, release())
	if failed != nil {
		m.fail("mounts", failed)
	}
	if moved != nil {
		m.fail("mounts", moved)
	}
	ctx, off := m.untilOff()
	m.processes.reap(m.watchdog.alive)
	if err := m.readConfig(); err != nil {
		m.fail("config", err)
	}
	m.plan()
	go m.logs.readKernel()
	m.openModules()
	m.readLastEnd()
	if m.lastEnd.still() {
		m.loadFew()
	} else {
		m.loadModules()
	}
	m.armWatchdog()
	if !m.lastEnd.held() {
		defer time.AfterFunc(lateAfter, m.startsOver).Stop()
	}
	defer context.AfterFunc(ctx, m.status.off)()
	m.watchPowerButton(ctx, off)
	running, endServices := context.WithCancel(context.WithoutCancel(ctx))
	stopReports := m.boot(ctx, running)
	<-ctx.Done()
	end, _ := errors.AsType[ending](context.Cause(ctx))
	how = end.reboot
	m.watchdog.off(offWithin)
	defer m.atLast(func() { _ = m.watchdog.disarm(); _ = unix.Reboot(how) })()
	m.startsOver()
	m.stage("off", "%v", context.Cause(ctx))
	stopReports()
	m.work.Wait()
	endServices()
	m.services.Wait()
	m.processes.endAll(m.stage)
	m.logs.end()
	if err := unmountData(); err != nil {
		m.fail("off", err)
	}
	return how
}

// boot goes through the stages until the machine is turned off. A stage that cannot go on waits, and says why: someone can read that and turn
// the machine off, and a network may come. What is returned tells a boot server what waits, and nothing more.
// Services run as long as running.
func (m *machine) boot(ctx, running context.Context) (stopReports func()) {
	stopReports = func() {}
	if m.lastEnd.held() {
		m.stop(progress.StagePanic, m.lastEnd.trouble())
		if m.config.Boot == "" || m.lastEnd.still() { // a driver of a network card may be what makes the kernel panic
			return stopReports
		}
	}
	if m.config.Boot != "" { // the network comes first, so that the boot server is told what holds up the rest
		if m.connect(ctx) != nil {
			return stopReports
		}
		reporting, cancel := context.WithCancel(context.WithoutCancel(ctx))
		go m.reports.run(reporting, &http.Transport{DisableKeepAlives: true}, m.config.Boot)
		stopReports = func() { m.reports.end(cancel); cancel() }
	}
	if m.lastEnd.held() { // once more: this is what the boot server and the page have to have last
		m.stop(progress.StagePanic, m.lastEnd.trouble())
		return stopReports
	}
	m.bootNode(ctx, running)
	return stopReports
}

// bootNode goes through the stages of a node. Its services run as long as running.
func (m *machine) bootNode(ctx, running context.Context) {
	if err := m.mountData(ctx); err != nil {
		if ctx.Err() == nil {
			m.stop(progress.StageData, err)
		}
		return
	}
	if err := m.logs.begin(LogsAt); err != nil {
		m.fail("data", err)
	}
	m.forget()
	if err := m.config.Missing(m.Joined()); err != nil {
		m.stop(progress.StageConfig, err)
		return
	}
	if m.config.Boot == "" && m.connect(ctx) != nil {
		return
	}
	if err := m.setClock(ctx); err != nil {
		if ctx.Err() == nil {
			m.stop(progress.StageClock, err)
		}
		return
	}
	m.stage("clock", "%s", time.Now().UTC().Format(time.RFC3339))
	m.startServices(running, ctx)
	m.work.Go(func() { m.serve(ctx) })
}

// ending is how a machine ends.
type ending struct {
	reason string
	reboot int
}

func (e ending) Error() string { return e.reason }

// untilOff returns a context that ends when the machine is turned off, by a signal or by the function.
func (m *machine) untilOff() (context.Context, func(ending)) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF) // Ctrl-Alt-Del is SIGINT then
	go func() {
		e := ending{"told to turn off", unix.LINUX_REBOOT_CMD_POWER_OFF}
		if s := <-signals; s == unix.SIGINT {
			e = ending{"told to start again", unix.LINUX_REBOOT_CMD_RESTART}
		}
		cancel(e)
	}()
	return ctx, func(e ending) { cancel(e) }
}

// mounts are the file systems of the kernel.
var mounts = []struct {
	kind, at, options string
	flags             uintptr
}{
	{"proc", "/proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{"sysfs", "/sys", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{"devtmpfs", "/dev", "mode=0755", unix.MS_NOSUID | unix.MS_NOEXEC},
	{"devpts", "/dev/pts", "mode=0620,ptmxmode=0666", unix.MS_NOSUID | unix.MS_NOEXEC},
	{"tmpfs", "/dev/shm", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
	{"tmpfs", "/run", "mode=0755", unix.MS_NOSUID | unix.MS_NODEV},
	{"tmpfs", "/tmp", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
	{"tmpfs", "/var/lib/writ", "mode=0700", unix.MS_NOSUID | unix.MS_NODEV},
	{"cgroup2", "/sys/fs/cgroup", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
}

func mountAll() error {
	var failed []error
	for _, one := range mounts {
		err := os.MkdirAll(one.at, 0o755)
		if err == nil {
			err = unix.Mount(one.kind, one.at, one.kind, one.flags, one.options)
		}
		if err != nil && !errors.Is(err, unix.EBUSY) {
			failed = append(failed, fmt.Errorf("mount %s at %s: %w", one.kind, one.at, err))
		}
	}
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
	return errors.Join(failed...)
}

// openConsoles opens the devices that people may look at: those that the kernel was told of, and the first screen and serial line, also if
// nobody told the kernel.
func openConsoles() (devices []*os.File) {
	active, _ := os.ReadFile("/sys/class/tty/console/active")
	seen := map[string]bool{}
	for _, name := range append(strings.Fields(string(active)), "tty0", "ttyS0") {
		if seen[name] {
			continue
		}
		seen[name] = true
		if device, err := os.OpenFile("/dev/"+name, os.O_WRONLY|unix.O_NOCTTY, 0); err == nil {
			devices = append(devices, device)
		}
	}
	return devices
}

func release() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// readConfig reads the words of the image, of the kernel's command line and of credentials. It leaves no secret where others could read it.
func (m *machine) readConfig() error {
	var failed []error
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = append(failed, err)
		}
		return string(text)
	}
	cmdline := read("/proc/cmdline")
	m.reports.started(cmdline)
	failed = append(failed, m.config.Read(read(SettingsAt)), m.config.Read(cmdline))
	for _, dir := range []string{"/.extra/global_credentials", "/.extra/credentials"} { // of systemd's stub; those beside the image come last
		names, _ := filepath.Glob(filepath.Join(dir, "*.cred"))
		for _, name := range names {
			failed = append(failed, m.config.Read(read(name)), os.Remove(name))
		}
	}
	if Redacted(cmdline) != strings.Join(strings.Fields(cmdline), " ") {
		failed = append(failed, hideCmdline(Redacted(cmdline)))
	}
	// What the kernel says at its start has its command line, too.
	failed = append(failed, os.WriteFile("/proc/sys/kernel/dmesg_restrict", []byte("1\n"), 0))
	return errors.Join(failed...)
}

// hideCmdline puts another text in the place of /proc/cmdline.
func hideCmdline(text string) error {
	const instead = "/run/cmdline"
	if err := os.WriteFile(instead, []byte(text+"\n"), 0o444); err != nil {
		return err
	}
	if err := unix.Mount(instead, "/proc/cmdline", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("hide the token in /proc/cmdline: %w", err)
	}
	return mountWholeProc()
}

// wholeProc is /proc with nothing hidden, for root alone.
const wholeProc = "/run/whole/proc"

// mountWholeProc lets containers with users of their own have a /proc: the kernel gives them one only if the host has one where no file is covered.
func mountWholeProc() error {
	err := os.Mkdir(filepath.Dir(wholeProc), 0o700)
	if err == nil {
		err = os.Mkdir(wholeProc, 0o700)
	}
	if err == nil {
		err = unix.Mount("proc", wholeProc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	if err != nil {
		return fmt.Errorf("mount another /proc for containers: %w", err)
	}
	return nil
}

// openModules finds the modules that the image has.
func (m *machine) openModules() {
	var err error
	if m.loader, err = newLoader(); err != nil {
		m.loader = nil
		m.fail(stageModules, err)
		return
	}
	m.loader.load = func(one *modules.Module) error {
		m.status.waits(stageModules, "loads "+one.Name, modulesLimit)
		return load(one)
	}
}

// plan says on the page which stages the start has.
func (m *machine) plan() {
	services, _ := readServices(ServicesAt) // whose error is told when they are started
	m.status.plan(m.config.stages(services))
}

// modulesLimit is that of the kernel: it comes back from a module when the driver has looked at its devices.
var modulesLimit = waitLimit{then: "a driver looks at its devices"}

// loadModules loads what is there for all machines, and what devices ask for.
func (m *machine) loadModules() {
	if m.loader == nil {
		return
	}
	list, err := os.ReadFile(LoadAt)
	if err != nil {
		m.fail(stageModules, err)
	}
	named, err := m.loader.named(strings.Fields(string(list)))
	asked, more := m.loader.all()
	if err := errors.Join(err, more); err != nil {
		m.fail(stageModules, err)
	}
	m.stage(stageModules, "%d loaded", named+asked)
}

func newLoader() (*loader, error) {
	index, err := modules.Open(os.DirFS(filepath.Join(ModulesAt, release())))
	if err != nil {
		return nil, err
	}
	return &loader{index: index, devices: os.DirFS("/sys/devices"), load: load, tried: map[string]bool{}}, nil
}

// Modprobe loads the modules that the kernel asks for, "modprobe -q -- NAME…", and returns its exit code.
func Modprobe(args []string) int {
	l, err := newLoader()
	if err != nil {
		return 1
	}
	loaded := 0
	for _, name := range args[1:] {
		if !strings.HasPrefix(name, "-") {
			n, _ := l.closure(name) // the kernel finds out whether it has what it wanted
			loaded += n
		}
	}
	if loaded == 0 {
		return 1
	}
	return 0
}

// parameters are those of modules that need some. A watchdog of the kernel panics, so that its last words are kept.
var parameters = map[string]string{softwareWatchdog: "soft_panic=1", "efi_pstore": "pstore_disable=0"}

// load loads a module into the kernel. One that is there already is fine.
func load(one *modules.Module) error {
	file, err := os.Open(filepath.Join(ModulesAt, release(), one.Path))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.FinitModule(int(file.Fd()), parameters[one.Name], 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}
