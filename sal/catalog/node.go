package catalog

import "time"

// NodeFacts is the result of node.facts.
type NodeFacts struct {
	Hostname    string `writ:"hostname,required" help:"the host name of the machine"`
	OS          string `writ:"os,required" help:"operating system, with its version if known"`
	Kernel      string `writ:"kernel,required" help:"release of the kernel"`
	Arch        string `writ:"arch,required" help:"amd64 or arm64"`
	BootID      string `writ:"boot_id,required" help:"changes with every boot"`
	CPUs        int64  `writ:"cpus,required" help:"number of CPUs"`
	MemoryMiB   int64  `writ:"memory_mib,required" help:"memory, in MiB"`
	DiskGiB     int64  `writ:"disk_gib,required" help:"size of the disk that holds its data, in GiB"`
	DiskFreeGiB int64  `writ:"disk_free_gib,required" help:"free space on this disk, in GiB"`
	KVM         bool   `writ:"kvm,required" help:"whether /dev/kvm can be opened"`
}

// NodeDriver is one driver in the result of node.drivers.
type NodeDriver struct {
	Module    string `writ:"module,required" help:"the module it serves"`
	Name      string `writ:"name,required" help:"the driver"`
	Simulated bool   `writ:"simulated,required" help:"whether it only simulates"`
	Detail    string `writ:"detail,required" help:"version, limits, or why it is simulated"`
}

// NodeDrivers is the result of node.drivers.
type NodeDrivers struct {
	Drivers []NodeDriver `writ:"drivers,required" help:"one for each module that the node serves"`
}

// Now is the result of run.now.
type Now struct {
	UnixMS int64 `writ:"unix_ms,required" help:"milliseconds since 1970, by the supervisor's clock"`
}

func nodeOperations() []*Operation {
	node := declaration{Module: "node", Repeat: Safe}
	return []*Operation{
		declare[Nothing, NodeFacts](node.with("facts", Look, 10*time.Second,
			"Reports the hardware, kernel and capacity of a node.").reads()),
		declare[Nothing, NodeDrivers](node.with("drivers", Look, 10*time.Second,
			"Reports the drivers of a node, and which of them only simulate.").reads()),
		declare[Nothing, Nothing](node.with("ping", Look, 10*time.Second,
			"Sends an empty job: through signature, queue, node and journal, and back.").reads()),
	}
}

func runOperations() []*Operation {
	run := declaration{Module: "run", Repeat: Safe}
	return []*Operation{
		declare[Nothing, Now](run.with("now", Find, time.Minute,
			"Reads the clock once. Later evaluations of the script get the same time.").reads()),
	}
}
