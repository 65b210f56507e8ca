package catalog

import (
	"time"

	"writ"
)

// Mount mounts a volume in a container.
type Mount struct {
	Volume   writ.Ref `writ:"volume,required,kinds=volume" help:"the volume, on the same node"`
	Path     string   `writ:"path,required,form=path,max=1024" help:"where the container sees it"`
	ReadOnly bool     `writ:"read_only" help:"the container may only read it"`
}

// ContainerCreate holds the arguments of container.create.
type ContainerCreate struct {
	Image     writ.Ref        `writ:"image,required,mutable,kinds=image,byname" help:"a handle to an image of format oci, or the name of one that the project has on the node"`
	Command   []string        `writ:"command,mutable,max=256,first=program" help:"program and arguments; the image's own if not given"`
	Env       map[string]Text `writ:"env,mutable,keys=variable,max=256" help:"environment besides the image's own"`
	CPUs      int64           `writ:"cpus,mutable,default=1,min=1,max=256,uses=cpus" help:"CPUs it may use"`
	MemoryMiB int64           `writ:"memory_mib,mutable,default=512,min=16,max=16777216,uses=memory_mib" help:"memory it may use, in MiB"`
	Networks  []writ.Ref      `writ:"networks,kinds=network,max=8,distinct=elements" help:"its networks, in order; the first gives it its address"`
	Volumes   []Mount         `writ:"volumes,max=32,distinct=path" help:"the volumes it sees"`
	// GraceSeconds has no default, so that calls of older scripts keep their hashes.
	GraceSeconds int64  `writ:"grace_seconds,mutable,min=1,max=3600" help:"how long the container may take to end by itself when it is replaced or deleted, in seconds; 10 if not given"`
	Restart      string `writ:"restart,mutable,default=always,enum=always|on-failure|never" help:"whether it is started again when it ends"`
}

// ContainerExec holds the arguments of container.exec.
type ContainerExec struct {
	Command []string        `writ:"command,required,min=1,max=256,first=program" help:"program and arguments; no shell comes between"`
	Env     map[string]Text `writ:"env,keys=variable,max=256" help:"environment besides the container's own"`
	Stdin   Text            `writ:"stdin,max=65536" help:"what the program reads"`
}

// ContainerDelete holds the arguments of container.delete.
type ContainerDelete struct {
	GraceSeconds int64 `writ:"grace_seconds,min=1,max=3600" help:"how long the container may take to end by itself before it is killed, in seconds; the value of container.create if not given"`
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
	Address   string   `writ:"address" help:"its address on its first network"`
	Addresses []string `writ:"addresses" help:"its address on each of its networks"`
	IPv4
	Ended string `writ:"ended" help:"how the last stopped or replaced process ended: exited by itself, or killed after the grace; empty if none was running"`
	// LastExitCode defaults to NeverEnded.
	LastExitCode int64 `writ:"last_exit_code,default=-1" help:"how its own program last ended by itself: 0 is success, 137 killed; -1 if it never did"`
	OutOfMemory  bool  `writ:"out_of_memory,default=false" help:"whether the kernel killed it then, as it took more memory than it may"`
}

// NeverEnded is the last exit code of a container whose program never exited by itself.
const NeverEnded = -1

// ContainerDeleted is the result of container.delete.
type ContainerDeleted struct {
	Identity
	Ended string `writ:"ended" help:"how its process ended: exited by itself, or killed after the grace; empty if none was running"`
}

// ContainerOutput is the result of container.exec.
type ContainerOutput struct {
	Container
	ExitCode int64  `writ:"exit_code,required" help:"how the program ended; 0 is success, and anything else fails nothing by itself"`
	Stdout   string `writ:"stdout,required" help:"the end of its output, at most 24 KiB"`
	Stderr   string `writ:"stderr,required" help:"the end of its error output, at most 24 KiB"`
}

// ContainerLogs is the result of container.logs.
type ContainerLogs struct {
	Container
	LogText
}

func containerOperations() []*Operation {
	container := Operation{Module: "container", Kind: writ.KindContainer, Repeat: Safe}
	return []*Operation{
		declare[ContainerCreate, Container](container.with("create", Make, 5*time.Minute,
			"Makes a container and starts it; a change of its spec replaces it, and its volumes stay.").
			uses("The container's program can write to its volumes, also to those that exist. One that is replaced loses what it wrote " +
				"outside its volumes.")),
		declare[Nothing, Container](container.with("get", Find, time.Minute,
			"Finds a container that an earlier run made.").reads()),
		declare[Nothing, Container](container.with("start", Alter, 2*time.Minute,
			"Starts a container that is stopped.").uses("The container's program can write to its volumes.")),
		declare[Stop, Container](container.with("stop", Alter, 5*time.Minute,
			"Stops a container: the STOPSIGNAL of its image first (SIGTERM by default), and SIGKILL when the grace is over. It is not started again by itself.").
			uses("What the container has not written to its volumes is lost when it is killed.")),
		declare[ContainerExec, ContainerOutput](container.with("exec", Alter, 5*time.Minute,
			"Runs a program in a running container and waits for its end.").
			uses("The program can delete and overwrite all that the container can, its volumes among it.").once()),
		declare[LogPart, ContainerLogs](container.with("logs", Look, 2*time.Minute,
			"Reads what a container wrote, both outputs together: the end of it, or on from where an earlier call ended.").reads().aside()),
		declare[ContainerDelete, ContainerDeleted](container.with("delete", Remove, 5*time.Minute,
			"Stops and deletes a container and what it wrote outside its volumes.").destroys("The container and what it wrote outside its volumes.")),
	}
}
