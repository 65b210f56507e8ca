package catalog

import (
	"time"

	"writ"
)

// MachineCreate holds the arguments of machine.create.
type MachineCreate struct {
	CPUs      int64           `writ:"cpus,required,mutable,min=1,max=256,uses=cpus" help:"virtual CPUs"`
	MemoryMiB int64           `writ:"memory_mib,required,mutable,min=64,max=16777216,uses=memory_mib" help:"memory in MiB"`
	Disks     []writ.Ref      `writ:"disks,kinds=volume,max=32,distinct=elements" help:"its volumes, in order; it boots from the first volume"`
	Networks  []writ.Ref      `writ:"networks,kinds=network,max=8,distinct=elements" help:"its networks, in order; its address is on the first network"`
	Kernel    writ.Ref        `writ:"kernel,kinds=image,byname,formats=raw" help:"a kernel to start directly; by default, the node boots the first disk"`
	Initramfs writ.Ref        `writ:"initramfs,kinds=image,byname,with=kernel,formats=raw" help:"the kernel's initramfs"`
	Cmdline   string          `writ:"cmdline,form=cmdline,max=2048,with=kernel" help:"the kernel's command line"`
	CloudInit Text            `writ:"cloud_init,form=userdata,max=65536" help:"user-data for cloud-init, read at the first boot"`
	SSHKeys   []string        `writ:"ssh_keys,form=sshkey,max=64" help:"public keys that permit a login"`
	Env       map[string]Text `writ:"env,keys=variable,form=value,max=256,beside=userdata" help:"environment variables, set at the first boot"`
}

// MachineResize holds the arguments of machine.resize.
type MachineResize struct {
	CPUs      int64 `writ:"cpus,min=1,max=256,uses=cpus" help:"virtual CPUs; unchanged if missing"`
	MemoryMiB int64 `writ:"memory_mib,min=64,max=16777216,uses=memory_mib" help:"memory in MiB; unchanged if missing"`
}

// MachineAttach holds the arguments of machine.attach.
type MachineAttach struct {
	Volume   writ.Ref `writ:"volume,required,kinds=volume" help:"the volume to attach, on the same node"`
	ReadOnly bool     `writ:"read_only" help:"attaches the volume read-only"`
}

// MachineDetach holds the arguments of machine.detach.
type MachineDetach struct {
	Volume writ.Ref `writ:"volume,required,kinds=volume" help:"the volume to detach"`
}

// Machine is the result of operations on a machine.
type Machine struct {
	Identity
	State     string   `writ:"state,required" help:"running, paused or stopped"`
	CPUs      int64    `writ:"cpus,required" help:"virtual CPUs"`
	MemoryMiB int64    `writ:"memory_mib,required" help:"memory in MiB"`
	Address   string   `writ:"address" help:"its address on its first network"`
	Addresses []string `writ:"addresses" help:"its address on each of its networks"`
	IPv4
	MAC       string   `writ:"mac" help:"hardware address on its first network"`
	Disks     []string `writ:"disks" help:"the names of its volumes, in order"`
	Snapshots []string `writ:"snapshots" help:"the names of its snapshots, sorted"`
	DiskGiB   int64    `writ:"disk_gib,default=0,uses=disk_gib" help:"size of its snapshots on the node's disk, in GiB, rounded up"`
	Ended     string   `writ:"ended" help:"how the guest of a stopped machine ended: exited, or killed after the grace period"`
}

// MachineConsole is the result of machine.console.
type MachineConsole struct {
	Machine
	LogText
}

func machineOperations() []*Operation {
	machine := declaration{Module: "machine", Kind: writ.KindMachine, Repeat: Safe}
	return []*Operation{
		declare[MachineCreate, Machine](machine.with("create", Make, 5*time.Minute,
			"Creates and starts a virtual machine. An existing machine keeps running or stays stopped.").
			uses("The machine's programs can write to its volumes, including existing ones. An existing machine gets other " +
				"CPUs or memory.")),
		declare[Nothing, Machine](machine.with("get", Find, time.Minute,
			"Finds a machine that an earlier run created.").reads()),
		declare[Nothing, Machine](machine.with("start", Alter, 2*time.Minute,
			"Starts a stopped machine.").uses("The machine's programs can write to its volumes.")),
		declare[Stop, Machine](machine.with("stop", Alter, 5*time.Minute,
			"Stops a machine: with its power button, then by killing it after the grace period.").
			uses("If the machine is killed, data that it has not written to its volumes is lost.")),
		declare[Nothing, Machine](machine.with("pause", Alter, time.Minute,
			"Pauses a running machine and keeps its memory.").uses("The services of the machine stop responding.")),
		declare[Nothing, Machine](machine.with("resume", Alter, time.Minute,
			"Resumes a paused machine.").uses("The machine's programs can write to its volumes.")),
		declare[MachineResize, Machine](machine.with("resize", Alter, 2*time.Minute,
			"Changes the CPUs or memory of a machine, without a restart if possible.").
			uses("The machine may restart, or get too little memory for its programs.")),
		declare[Snapshot, Machine](machine.with("snapshot", Alter, 10*time.Minute,
			"Creates a snapshot of a machine's memory and disks. An existing snapshot with the name stays unchanged.").
			adds().measured()),
		declare[Snapshot, Machine](machine.with("restore", Alter, 10*time.Minute,
			"Restores a machine's memory and disks from a snapshot. Changes since then are lost.").
			destroys("Changes of the machine's memory and disks since the snapshot.").once()),
		declare[Snapshot, Machine](machine.with("delete_snapshot", Alter, 5*time.Minute,
			"Deletes a snapshot of a machine; the machine keeps its memory and disks.").destroys("The snapshot.")),
		declare[MachineAttach, Machine](machine.with("attach", Alter, time.Minute,
			"Attaches a volume to a machine.").uses("The machine's programs can write to the volume.")),
		declare[MachineDetach, Machine](machine.with("detach", Alter, time.Minute,
			"Detaches a volume from a machine, except the boot volume.").uses(
			"The machine's programs lose the volume; its content stays.")),
		declare[LogPart, MachineConsole](machine.with("console", Look, 2*time.Minute,
			"Reads the console output of a machine: the last lines, or the lines after an earlier call.").reads().aside()),
		declare[Nothing, Identity](machine.with("delete", Remove, 5*time.Minute,
			"Stops and deletes a machine and its snapshots. Its volumes stay.").
			destroys("The machine, its memory and its snapshots. Its volumes stay.")),
	}
}
