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
	"time"

	"golang.org/x/sys/unix"

	"writ/efi/boot/datadisk"
	"writ/efi/boot/devices"
	"writ/efi/boot/netconfig"
	"writ/efi/boot/panics"
	"writ/efi/progress"
	"writ/internal/wake"
)

// endLimit is how long a program may take to exit.
var endLimit = progress.Limit{Most: 30 * time.Second, Then: "it is killed"}

// showWithin is how long the consoles may take to show the last lines.
const showWithin = 2 * time.Second

// machine is the running machine.
type machine struct {
	*Machine
	reporter
	config   Config
	loader   *devices.Loader
	network  *netconfig.Network
	programs programs
	watchdog watchdog
	lastEnd  lastEnd
	clock    clockStage
	services serviceStage   // programs of the image; they end after the runner, which needs them
	node     nodeStage      // the runner
	work     sync.WaitGroup // goroutines that end at shutdown, including the runner's
	reports  *reports
	logs     *logs
}

// newMachine returns a machine whose stages report to r and l.
func newMachine(m *Machine, r reporter, l *logs) *machine {
	run := &machine{Machine: m, reporter: r, logs: l, programs: programs{show: r.Show}}
	run.lastEnd = lastEnd{Machine: m, reporter: r, logs: l}
	run.clock = clockStage{reporter: r, work: &run.work}
	run.services = serviceStage{Machine: m, reporter: r, programs: &run.programs, logs: l}
	run.node = nodeStage{
		Machine: m, reporter: r, programs: &run.programs, logs: l, config: &run.config, work: &run.work,
		failing: wake.New(),
	}
	return run
}

// Main starts the machine and runs it until it is turned off. It never returns: the kernel panics if its first process
// exits.
func (m *Machine) Main() {
	moved := moveRoot()
	reports, logs := newReports(m.Redact), newLogs(m.Redact)
	screen := &consoles{since: uptime, kept: logs.stage}
	page := &status{consoles: screen, version: withImage(m.Version), node: nodeState{admission: m.Admission}}
	screen.told = func(r progress.Report) {
		r.Text = m.Redact(r.Text)
		page.note(r)
		reports.add(r)
	}
	run := newMachine(m, reporter{screen, page}, logs)
	run.reports = reports
	run.network = netconfig.New(run, &run.config.Settings, &run.work, "/etc", unix.Sethostname)
	page.addresses, page.cards = run.network.String, run.network.Waiting
	how := run.run(moved)
	run.Stage("off", "bye")
	run.close(showWithin)
	unix.Sync()
	_ = run.watchdog.disarm() // an armed watchdog would restart the machine if the reboot call fails
	_ = unix.Reboot(how)
	select {} // until the firmware acts
}

// withImage appends the version of the image to the version of the program, if the image has one.
func withImage(version string) string {
	text, _ := os.ReadFile("/etc/os-release") // missing in images of earlier versions
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

// run goes through the life of the machine. moved is the result of moveRoot. It returns the command for the final
// reboot(2).
func (m *machine) run(moved error) (how int) {
	failed := mountAll()
	for _, device := range openConsoles() {
		m.add(device)
	}
	m.Stage("start", "writ %s on Linux %s", m.Version, release())
	if failed != nil {
		m.Fail("mounts", failed)
	}
	if moved != nil {
		m.Fail("mounts", moved)
	}
	ctx, off := m.untilOff()
	m.programs.processes.reap(m.watchdog.alive)
	if err := m.readConfig(); err != nil {
		m.Fail("config", err)
	}
	m.plan()
	go m.logs.readKernel()
	m.openModules()
	m.lastEnd.read(m.loader)
	if m.lastEnd.Still() {
		m.loadFew()
	} else {
		m.loadModules()
	}
	m.armWatchdog()
	if !m.lastEnd.Held() {
		defer time.AfterFunc(panics.LateAfter, m.lastEnd.startsOver).Stop()
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
	m.lastEnd.startsOver()
	m.Stage("off", "%v", context.Cause(ctx))
	stopReports()
	m.work.Wait()
	endServices()
	m.services.running.Wait()
	m.programs.processes.endAll(m.Stage)
	m.logs.end()
	if err := m.mounter().Disk.Unmount(); err != nil {
		m.Fail("off", err)
	}
	return how
}

// boot runs the stages of the start. A stage that cannot continue shows the reason and waits. Meanwhile a person can
// read the reason and turn the machine off, or a missing network may appear. Services run until the context `running`
// ends. The returned function flushes the pending reports and stops reporting.
func (m *machine) boot(ctx, running context.Context) (stopReports func()) {
	stopReports = func() {}
	if m.lastEnd.Held() {
		m.stop(progress.StagePanic, m.lastEnd.Trouble())
		if m.config.Boot == "" || m.lastEnd.Still() { // no network, because the driver of a card may cause the panics
			return stopReports
		}
	}
	if m.config.Boot != "" { // the network comes first, so that later problems are reported to the boot server
		if m.network.Connect(ctx) != nil {
			return stopReports
		}
		reporting, cancel := context.WithCancel(context.WithoutCancel(ctx))
		go m.reports.run(reporting, &http.Transport{DisableKeepAlives: true}, m.config.Boot)
		stopReports = func() { m.reports.end(cancel); cancel() }
	}
	if m.lastEnd.Held() { // reported again, so that it is the last report and the last page
		m.stop(progress.StagePanic, m.lastEnd.Trouble())
		return stopReports
	}
	m.bootNode(ctx, running)
	return stopReports
}

// bootNode runs the stages of a node. Its services run until the context `running` ends.
func (m *machine) bootNode(ctx, running context.Context) {
	if err := m.mounter().Mount(ctx); err != nil {
		if ctx.Err() == nil {
			m.stop(progress.StageData, err)
		}
		return
	}
	if err := m.logs.begin(LogsAt); err != nil {
		m.Fail("data", err)
	}
	m.lastEnd.forget()
	if err := m.config.Missing(m.Joined()); err != nil {
		m.stop(progress.StageConfig, err)
		return
	}
	if m.config.Boot == "" && m.network.Connect(ctx) != nil {
		return
	}
	if err := m.clock.set(ctx, m.config.TimeServers); err != nil {
		if ctx.Err() == nil {
			m.stop(progress.StageClock, err)
		}
		return
	}
	m.Stage("clock", "%s", time.Now().UTC().Format(time.RFC3339))
	m.services.start(running, ctx)
	m.work.Go(func() { m.node.serve(ctx) })
}

// diskHost gives the mounter of the data disk access to the reporter and the programs of the machine.
type diskHost struct {
	*reporter
	*programs
}

// mounter returns the mounter of the data disk.
func (m *machine) mounter() *datadisk.Mounter {
	return &datadisk.Mounter{
		Host: diskHost{&m.reporter, &m.programs}, Loader: m.loader,
		Disk: datadisk.Settings{Label: m.config.label(), Serial: m.config.Disk, Node: m.config.Name, Dir: DataAt},
	}
}

// ending is the reason for a shutdown and the reboot(2) command for it.
type ending struct {
	reason string
	reboot int
}

func (e ending) Error() string { return e.reason }

// untilOff returns a context that ends when the machine is turned off, either by a signal or by the returned function.
func (m *machine) untilOff() (context.Context, func(ending)) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF) // the kernel then sends SIGINT for Ctrl-Alt-Del
	go func() {
		e := ending{"shutdown requested", unix.LINUX_REBOOT_CMD_POWER_OFF}
		if s := <-signals; s == unix.SIGINT {
			e = ending{"restart requested", unix.LINUX_REBOOT_CMD_RESTART}
		}
		cancel(e)
	}()
	return ctx, func(e ending) { cancel(e) }
}

// mounts lists the kernel's file systems.
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

// openConsoles opens the consoles of the kernel's command line, plus the first screen and the first serial line, which
// people may watch even if the command line does not name them.
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

// readConfig reads the settings of the image, of the kernel's command line and of credentials. It deletes or hides the
// sources that contain a secret.
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
	// Credentials from systemd's stub. The credentials beside the image come last, so their values win.
	for _, dir := range []string{"/.extra/global_credentials", "/.extra/credentials"} {
		names, _ := filepath.Glob(filepath.Join(dir, "*.cred"))
		for _, name := range names {
			failed = append(failed, m.config.Read(read(name)), os.Remove(name))
		}
	}
	if Redacted(cmdline) != strings.Join(strings.Fields(cmdline), " ") {
		failed = append(failed, hideCmdline(Redacted(cmdline)))
	}
	// The kernel log contains the command line, so only root may read it.
	failed = append(failed, os.WriteFile("/proc/sys/kernel/dmesg_restrict", []byte("1\n"), 0))
	return errors.Join(failed...)
}

// hideCmdline mounts a file with another text over /proc/cmdline.
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

// wholeProc is a /proc without files covered by other mounts. Only root can access it.
const wholeProc = "/run/whole/proc"

// mountWholeProc mounts a second /proc for containers with user namespaces. The kernel lets such a container mount a
// /proc only if the host has a /proc without files covered by other mounts.
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

// openModules opens the module index of the image.
func (m *machine) openModules() {
	var err error
	if m.loader, err = devices.New(imageModules(), parameters); err != nil {
		m.loader = nil
		m.Fail(progress.StageModules, err)
		return
	}
	m.network.Loader = m.loader
	m.loader.Loads = func(module string) { m.Waits(progress.StageModules, "loads "+module, modulesLimit) }
}

// plan shows the stages of the start on the page.
func (m *machine) plan() {
	services, _ := readServices(ServicesAt) // an error is reported when the services start
	m.status.changeStages(func(s *stages) { s.plan(m.config.stages(services)) })
}

// parameters holds the options of the modules that need some. The software watchdog makes the kernel panic, so that the
// kernel log is preserved.
var parameters = map[string]string{softwareWatchdog: "soft_panic=1", "efi_pstore": "pstore_disable=0"}

// modulesLimit has no timeout: loading a module blocks until its driver has probed the devices.
var modulesLimit = progress.Limit{Then: "a driver probes its devices"}

// loadModules loads the modules of the image's list and the modules that devices request.
func (m *machine) loadModules() {
	if m.loader == nil {
		return
	}
	list, err := os.ReadFile(LoadAt)
	if err != nil {
		m.Fail(progress.StageModules, err)
	}
	named, err := m.loader.Named(strings.Fields(string(list)))
	asked, more := m.loader.All()
	if err := errors.Join(err, more); err != nil {
		m.Fail(progress.StageModules, err)
	}
	m.Stage(progress.StageModules, "%d loaded", named+asked)
}

// loadFew loads only the modules that a held machine needs for its power button.
func (m *machine) loadFew() {
	if m.loader == nil {
		return
	}
	names := []string{"button", "evdev"}
	if _, err := m.loader.Named(names); err != nil {
		m.Fail("modules", err)
		return
	}
	m.Stage("modules", "%s only", strings.Join(names, " and "))
}

// Modprobe loads the modules that the kernel requests with "modprobe -q -- NAME…" and returns the exit code.
func Modprobe(args []string) int { return devices.Modprobe(imageModules(), parameters, args[1:]) }

// imageModules returns the directory of the modules for the running kernel.
func imageModules() string { return filepath.Join(ModulesAt, release()) }
