package catalog

import (
	"slices"
	"time"

	"writ"
)

// Mount mounts a volume in a container.
type Mount struct {
	Volume   writ.Ref `writ:"volume,required,kinds=volume" help:"the volume, on the same node"`
	Path     string   `writ:"path,required,form=path,max=1024" help:"path in the container"`
	ReadOnly bool     `writ:"read_only" help:"mounts the volume read-only"`
}

// Login is an account at a registry.
type Login struct {
	User     string `writ:"user,required,form=account,max=256" help:"the name of the account"`
	Password Text   `writ:"password,required,hidden,min=1,max=16384" help:"its password or token, a secret of the project"`
}

// ContainerProgram holds the arguments that container.create and container.run share.
type ContainerProgram struct {
	Image     writ.Ref        `writ:"image,required,mutable,kinds=image,byname,registry,formats=oci" help:"reference to an image at a registry, handle to an image of format oci, or its name"`
	Login     Login           `writ:"login,mutable,beside=registry" help:"the account at the registry of a private image"`
	Command   []string        `writ:"command,mutable,max=256,first=program" help:"program and arguments; the default is the image's command"`
	Env       map[string]Text `writ:"env,mutable,keys=variable,max=256" help:"environment variables, in addition to the image's"`
	CPUs      writ.Hundredths `writ:"cpus,mutable,default=1,min=0.01,max=256,uses=cpus" help:"CPUs, in steps of 0.01"`
	MemoryMiB int64           `writ:"memory_mib,mutable,default=512,min=16,max=16777216,uses=memory_mib" help:"maximum memory, in MiB"`
	Networks  []writ.Ref      `writ:"networks,kinds=network,max=8,distinct=elements" help:"its networks, in order; its address is on the first network"`
	Volumes   []Mount         `writ:"volumes,max=32,distinct=path" help:"volumes to mount"`
	ContainerSettings
}

// ContainerSettings replaces parts of the config of an image. No field has a default, so calls of older scripts keep
// their hashes.
type ContainerSettings struct {
	User string `writ:"user,mutable,form=owner,max=256" help:"user and group of its program in the image"`

	Workdir string `writ:"workdir,mutable,form=directory,max=1024" help:"working directory of its program"`

	ReadOnly bool `writ:"read_only,mutable" help:"lets it write only to volumes, tmpfs, /dev and /run"`

	Tmpfs []string `writ:"tmpfs,mutable,max=16,form=path,distinct=elements,fits=tmpfs" help:"directories in memory"`

	// StopSignal is the name of a signal of Linux without SIG.
	StopSignal string `writ:"stop_signal,mutable,enum=TERM|INT|QUIT|HUP|USR1|USR2|WINCH|PWR|RTMIN+3" help:"asks it to end"`

	Ulimits Ulimits `writ:"ulimits,mutable" help:"limits of each of its processes"`

	Init bool `writ:"init,mutable" help:"runs its program below an init process, which reaps zombies"`

	// Devices are names, because a path would let authors reach any device of the node.
	Devices []string `writ:"devices,mutable,max=16,form=device,distinct=elements" help:"devices that its node offers"`
}

// InitPath is the path of the init process in a container. It is in a directory that the runtime makes, so the image
// need not have it.
const InitPath = "/dev/init"

// Ulimits limits each process of a container, as setrlimit(2) does. Without a value, the limit of the node's containerd
// applies. The maximum of NoFile is Linux' default of fs.nr_open.
type Ulimits struct {
	NoFile     int64 `writ:"nofile,min=64,max=1048576" help:"open files"`
	MemlockMiB int64 `writ:"memlock_mib,min=1,max=16777216" help:"locked memory, in MiB"`
}

// File is a file that the node writes for a container.
type File struct {
	Text  Text   `writ:"text,required" help:"its content, at most 1 MiB"`
	Mode  string `writ:"mode,form=mode" help:"its permissions; the default is 0444, and 0400 for a secret"`
	Owner string `writ:"owner,form=owner,max=256" help:"its user and group in the image; the default is root"`
}

// MaxFile limits the content of a File, in bytes.
const MaxFile = 1 << 20

// Content returns the content of the file at a path. It returns FILE_TOO_LARGE above MaxFile.
func (f File) Content(path string) (string, error) {
	if n := f.Text.Len(); n > MaxFile {
		return "", writ.Errorf(writ.CodeFileTooLarge, "the file %s has %d bytes, and a file may have %d",
			path, n, MaxFile).
			WithHint("put larger content into an image or a volume")
	}
	return f.Text.Reveal()
}

// The values of KeptFile.OnChange.
const (
	OnChangeRestart = "restart" // replaces the container
	OnChangeSignal  = "HUP"
	OnChangeNone    = "none"
)

// KeptFile is a file of container.create. Its content may change while the container runs.
type KeptFile struct {
	File
	OnChange string `writ:"on_change,default=restart,enum=restart|HUP|none" help:"effect of a changed text"`
}

// DefaultMode returns the mode, in octal, of a file whose Mode is empty.
func (f File) DefaultMode() string {
	if f.Text.HasSecret() {
		return "0400"
	}
	return "0444"
}

// FilesReplace reports whether a change of the files of a container needs a new container. Otherwise, their content
// changes in place. A change of the mode needs a new container, because a program may have opened the file already. The
// default mode changes if a secret replaces a text.
func FilesReplace(old, now map[string]KeptFile) bool {
	for path, f := range now {
		before, had := old[path]
		if !had || before.Mode != f.Mode || before.Owner != f.Owner ||
			f.Mode == "" && before.DefaultMode() != f.DefaultMode() ||
			f.OnChange == OnChangeRestart && !before.Text.Equal(f.Text) {
			return true
		}
	}
	return len(old) != len(now)
}

// ContainerCreate holds the arguments of container.create.
type ContainerCreate struct {
	ContainerProgram
	Files   map[string]KeptFile `writ:"files,mutable,max=32,keys=path,short=text,fits=files" help:"files, by path"`
	Publish []Publish           `writ:"publish,mutable,max=32,whole=publish" help:"ports of the node that lead to it"`
	// GraceSeconds has no default, so that calls of older scripts keep their hashes.
	GraceSeconds int64  `writ:"grace_seconds,mutable,min=1,max=3600,waits" help:"time for the container to exit when it is replaced or deleted, in seconds; the default is 10"`
	Restart      string `writ:"restart,mutable,default=always,enum=always|on-failure|never" help:"when to restart it after it exits"`

	Health Health `writ:"health,mutable,whole=health,beside=port" help:"health check; the call waits until it succeeds"`
}

// Health describes a health check. It has exactly one of HTTP, TCP, Command and Image.
type Health struct {
	HTTP string `writ:"http,form=urlpath,max=1024" help:"path for a GET request; 200 to 399 is healthy"`
	Port int64  `writ:"port,min=1,max=65535,with=http" help:"the port of http; by default the only published TCP port"`
	TCP  int64  `writ:"tcp,min=1,max=65535" help:"a port that accepts connections if the container is healthy"`

	Command []string `writ:"command,min=1,max=256,first=program" help:"program and arguments; exit code 0 is healthy"`
	Image   bool     `writ:"image" help:"run the command of the image's HEALTHCHECK, with the times of this check"`

	IntervalSeconds int64 `writ:"interval_seconds,default=10,min=1,max=3600" help:"seconds from one probe to the next"`
	TimeoutSeconds  int64 `writ:"timeout_seconds,default=3,min=1,max=300" help:"time limit of a probe, in seconds"`
	Retries         int64 `writ:"retries,default=3,min=1,max=100" help:"consecutive failures that make it unhealthy"`
	StartSeconds    int64 `writ:"start_seconds,default=30,min=1,max=3600,waits" help:"seconds until failures count"`
	HealthySeconds  int64 `writ:"healthy_seconds,min=1,max=3600" help:"seconds without a failure before the call returns"`
}

// Values of the result field "health" of a running container with a health check.
const (
	HealthStarting  = "starting"  // no probe has succeeded since it started
	HealthHealthy   = "healthy"   // fewer than retries probes have failed since the last success
	HealthUnhealthy = "unhealthy" // the last probes failed
)

// LeastCommandInterval is the minimum of interval_seconds for a check with a command, in seconds: each probe starts a
// process of the runtime on the node.
const LeastCommandInterval = 5

// longestHandover limits Health.Limit for a handover, a replacement without downtime. Both containers run for that
// time, but the supervisor reserves memory for only one.
const longestHandover = 15 * time.Minute

// AllowsHandover reports whether the check ends soon enough for a replacement without downtime.
func (h Health) AllowsHandover() bool { return h.Limit() <= longestHandover }

// Limit returns the longest time that a call waits for a healthy container; 0 without a check.
func (h Health) Limit() time.Duration {
	seconds := func(n int64) time.Duration { return time.Duration(n) * time.Second }
	return seconds(h.StartSeconds) + time.Duration(h.Retries)*seconds(h.TimeoutSeconds+h.IntervalSeconds) +
		seconds(h.HealthySeconds)
}

// HealthCheck returns the argument health with the default of its port. The port stays 0 if publish leads to no TCP
// port or to several TCP ports.
func (c *ContainerCreate) HealthCheck() Health {
	h := c.Health
	if h.HTTP != "" && h.Port == 0 {
		if to := targetsOf(c.Publish); len(to) == 1 {
			h.Port = to[0]
		}
	}
	return h
}

// targetsOf returns the TCP ports of a container that published ports lead to.
func targetsOf(ports []Publish) (to []int64) {
	for _, p := range ports {
		if p.Protocol == "tcp" && !slices.Contains(to, p.To) {
			to = append(to, p.To)
		}
	}
	return to
}

// ReplacesContainer reports whether a change of an argument of container.create needs a new container. Other changes
// are applied to the existing container. For changes of files, see FilesReplace.
func ReplacesContainer(argument string) bool {
	return !slices.Contains([]string{"restart", "grace_seconds", "publish", "health", "login", "files"}, argument)
}

// ContainerExec holds the arguments of container.exec.
type ContainerExec struct {
	Command []string        `writ:"command,required,min=1,max=256,first=program" help:"program and arguments; they are not passed to a shell"`
	Env     map[string]Text `writ:"env,keys=variable,max=256" help:"environment variables, in addition to the container's"`
	Stdin   Text            `writ:"stdin,max=65536" help:"input of the program"`
}

// ContainerRun holds the arguments of container.run.
type ContainerRun struct {
	ContainerProgram
	Files map[string]File `writ:"files,max=32,keys=path,short=text,fits=files" help:"files, by path"`
	Check bool            `writ:"check,default=true" help:"whether an exit code other than 0 fails the call"`
}

// ContainerDelete holds the arguments of container.delete.
type ContainerDelete struct {
	GraceSeconds int64 `writ:"grace_seconds,min=1,max=3600,waits" help:"time for the container to exit before it is killed, in seconds; the default is the value of container.create"`
}

// Values of the result field "ended" of a stopped container or machine.
const (
	EndedByItself = "exited"
	EndedByForce  = "killed"
)

// Container is the result of operations on a container.
type Container struct {
	Identity
	State     string   `writ:"state,required" help:"running or stopped"`
	Health    string   `writ:"health" help:"starting, healthy or unhealthy; empty if stopped or without a check"`
	Address   string   `writ:"address" help:"its address on its first network"`
	Addresses []string `writ:"addresses" help:"its address on each of its networks"`
	IPv4
	Published []Published `writ:"published" help:"its published ports, at each address of the node"`

	Ended string `writ:"ended" help:"how the last stopped or replaced process ended: exited, or killed after the grace period; empty if none was running"`
	// LastExitCode defaults to NeverEnded.
	LastExitCode int64 `writ:"last_exit_code,default=-1" help:"exit code of its program when it last exited by itself: 0 is success, 137 killed; -1 if it never did"`
	OutOfMemory  bool  `writ:"out_of_memory,default=false" help:"whether it last exited because the kernel killed it for exceeding its memory"`
}

// NeverEnded is the last exit code of a container whose program never exited by itself.
const NeverEnded = -1

// ContainerDeleted is the result of container.delete.
type ContainerDeleted struct {
	Identity
	Ended string `writ:"ended" help:"how its process ended: exited, or killed after the grace period; empty if none was running"`
}

// ContainerOutput is the result of container.exec.
type ContainerOutput struct {
	Container
	ExitCode int64  `writ:"exit_code,required" help:"exit code of the program; 0 is success, and other codes do not fail the call"`
	Stdout   string `writ:"stdout,required" help:"the end of its output, at most 24 KiB"`
	Stderr   string `writ:"stderr,required" help:"the end of its error output, at most 24 KiB"`
}

// ContainerRan is the result of container.run.
type ContainerRan struct {
	Identity
	ExitCode    int64  `writ:"exit_code,required" help:"exit code of the program; 0 is success, 137 killed"`
	Stdout      string `writ:"stdout,required" help:"the end of its output, at most 24 KiB"`
	Stderr      string `writ:"stderr,required" help:"the end of its error output, at most 24 KiB"`
	OutOfMemory bool   `writ:"out_of_memory,default=false" help:"whether the kernel killed it for exceeding its memory"`
}

// ContainerLogs is the result of container.logs.
type ContainerLogs struct {
	Container
	LogText
}

func containerOperations() []*Operation {
	container := declaration{Module: "container", Kind: writ.KindContainer, Repeat: Safe}
	return []*Operation{
		declare[ContainerCreate, Container](container.with("create", Make, 5*time.Minute,
			"Creates and starts a container, and waits until it is healthy if it has a health check. A change of its spec "+
				"replaces it; its volumes stay.").
			uses("The container's program can write to its volumes, including existing ones. " +
				"A replaced container loses the data that it wrote outside its volumes.")),
		declare[Nothing, Container](container.with("get", Find, time.Minute,
			"Finds a container that an earlier run created.").reads()),
		declare[Nothing, Container](container.with("start", Alter, 2*time.Minute,
			"Starts a stopped container, and waits until it is healthy if it has a health check.").
			uses("The container's program can write to its volumes.").awaitsHealth()),
		declare[Stop, Container](container.with("stop", Alter, 5*time.Minute,
			"Stops a container: with the STOPSIGNAL of its image (SIGTERM by default), then with SIGKILL after the grace "+
				"period. It does not restart by itself.").
			uses("If the container is killed, data that it has not written to its volumes is lost.")),
		declare[ContainerExec, ContainerOutput](container.with("exec", Alter, 5*time.Minute,
			"Runs a program in a running container and waits until it exits.").
			uses("The program can delete and overwrite the same data as the container, including its volumes.").once()),
		declare[ContainerRun, ContainerRan](container.with("run", Run, 30*time.Minute,
			"Runs a container until its program exits, and deletes it.").
			uses("The program can write to its volumes, including existing ones.").resumes()),
		declare[LogPart, ContainerLogs](container.with("logs", Look, 2*time.Minute,
			"Reads the log of a container with both of its outputs: the last lines, or the lines after an earlier call.").
			reads().aside()),
		declare[ContainerDelete, ContainerDeleted](container.with("delete", Remove, 5*time.Minute,
			"Stops and deletes a container and its data outside its volumes.").destroys(
			"The container and its data outside its volumes.")),
	}
}
