package api

import "context"

// VM is the API of the one machine of a process. Its methods return a *Refusal if the process answers with an error.
type VM struct{ client *Client }

// Info returns the machine's configuration and state. Before Create, it returns a Refusal with status 404.
func (v *VM) Info(ctx context.Context) (into Info, err error) {
	err = call{"vm.info", &into}.done(v.client.Info(ctx))
	return into, err
}

// Counters returns the I/O counters, by device and counter.
func (v *VM) Counters(ctx context.Context) (into Counters, err error) {
	err = call{"vm.counters", &into}.done(v.client.Counters(ctx))
	return into, err
}

// Create sets the configuration.
func (v *VM) Create(ctx context.Context, c Config) error {
	return call{operation: "vm.create"}.done(v.client.Create(ctx, c))
}

// Boot builds the machine and starts it.
func (v *VM) Boot(ctx context.Context) error {
	return call{operation: "vm.boot"}.done(v.client.Boot(ctx))
}

// CutOff flushes the disks and stops the machine without a shutdown by the guest.
func (v *VM) CutOff(ctx context.Context) error {
	return call{operation: "vm.shutdown"}.done(v.client.CutOff(ctx))
}

// PressPowerButton asks the guest to shut down.
func (v *VM) PressPowerButton(ctx context.Context) error {
	return call{operation: "vm.power-button"}.done(v.client.PressPowerButton(ctx))
}

// Pause pauses the machine.
func (v *VM) Pause(ctx context.Context) error {
	return call{operation: "vm.pause"}.done(v.client.Pause(ctx))
}

// Resume resumes the machine.
func (v *VM) Resume(ctx context.Context) error {
	return call{operation: "vm.resume"}.done(v.client.Resume(ctx))
}

// Resize changes the CPUs or the memory of the machine.
func (v *VM) Resize(ctx context.Context, to Resize) error {
	return call{operation: "vm.resize"}.done(v.client.Resize(ctx, to))
}

// ResizeDisk announces the new size of a disk to the guest.
func (v *VM) ResizeDisk(ctx context.Context, to ResizeDisk) error {
	return call{operation: "vm.resize-disk"}.done(v.client.ResizeDisk(ctx, to))
}

// AddDisk attaches a disk.
func (v *VM) AddDisk(ctx context.Context, disk Disk) error {
	return call{operation: "vm.add-disk"}.done(v.client.AddDisk(ctx, disk))
}

// RemoveDevice asks the guest to release a device.
func (v *VM) RemoveDevice(ctx context.Context, id string) error {
	return call{operation: "vm.remove-device"}.done(v.client.RemoveDevice(ctx, Device{ID: id}))
}

// Snapshot writes memory and state of a paused machine into an existing directory.
func (v *VM) Snapshot(ctx context.Context, dir string) error {
	return call{operation: "vm.snapshot"}.done(v.client.Snapshot(ctx, Snapshot{DestinationURL: "file://" + dir}))
}

// Restore creates the machine from a snapshot, paused unless resume is set.
func (v *VM) Restore(ctx context.Context, dir string, resume bool) error {
	return call{operation: "vm.restore"}.done(v.client.Restore(ctx, Restore{SourceURL: "file://" + dir, Resume: resume}))
}
