package catalog

import (
	"time"

	"writ"
)

// HeroDBCreate holds the arguments of herodb.create.
type HeroDBCreate struct {
	MemoryMiB int64    `writ:"memory_mib,required,mutable,min=16,max=16777216,uses=memory_mib" help:"maximum memory, in MiB"`
	Persist   bool     `writ:"persist" help:"stores the data on disk; otherwise a restart loses it"`
	SizeGiB   int64    `writ:"size_gib,mutable,default=1,min=1,max=65536,uses=disk_gib" help:"space for data and backups, in GiB; it can grow but not shrink"`
	Engines   []string `writ:"engines,enum=herodb|hero_redis|redis-server|valkey-server,max=4,engine=name" help:"the acceptable engines, in order of preference; the default is any engine of its node"`
	Version   string   `writ:"version,mutable,form=version,engine=version" help:"the engine's version or its beginning: 7 matches 7.2.4; a new version upgrades the database"`
	Network   writ.Ref `writ:"network,kinds=network" help:"the network on which it listens; the default is the node's own address"`
	Password  Text     `writ:"password,mutable,hidden,min=8,max=1024" help:"the password for clients; without it, the node generates one that no script sees: set one if scripts connect to the database"`
}

// Backup names a backup of a database.
type Backup struct {
	Backup string `writ:"backup,required,form=name" help:"the backup's name within its database"`
}

// HeroDB is the result of operations on a database. Results never contain the password.
type HeroDB struct {
	Identity
	State         string   `writ:"state,required" help:"running or stopped"`
	Address       string   `writ:"address,required" help:"host and port, in the form for clients"`
	Host          string   `writ:"host,required" help:"the address alone"`
	Port          int64    `writ:"port,required" help:"the TCP port alone"`
	Engine        string   `writ:"engine,required" help:"the engine that serves it"`
	Version       string   `writ:"version,required" help:"the engine's version"`
	SecretVersion int64    `writ:"secret_version,required" help:"number of the current password, from 1; the password itself is never shown"`
	Backups       []string `writ:"backups" help:"the names of its backups, sorted"`
}

func herodbOperations() []*Operation {
	herodb := declaration{Module: "herodb", Kind: writ.KindHeroDB, Repeat: Safe}
	return []*Operation{
		declare[HeroDBCreate, HeroDB](herodb.with("create", Make, 5*time.Minute,
			"Creates and starts a database with the Redis protocol.").
			uses("An existing database gets another size, version or password; without `persist`, it is empty after a " +
				"restart.")),
		declare[Nothing, HeroDB](herodb.with("get", Find, time.Minute,
			"Finds a database that an earlier run created.").reads()),
		declare[Backup, HeroDB](herodb.with("backup", Alter, time.Hour,
			"Creates a backup of a database. An existing backup with the name stays unchanged.").adds()),
		declare[Backup, HeroDB](herodb.with("restore", Alter, time.Hour,
			"Restores a database from a backup. Data written since then is lost.").
			destroys("Data written to the database since the backup.").once()),
		declare[Backup, HeroDB](herodb.with("delete_backup", Alter, 5*time.Minute,
			"Deletes a backup of a database; the database keeps its data.").destroys("The backup.")),
		declare[Nothing, HeroDB](herodb.with("rotate_secret", Alter, time.Minute,
			"Gives a database a new password. Clients with the old password can no longer connect.").
			uses("Clients with the old password can no longer write.").once()),
		declare[Nothing, Identity](herodb.with("delete", Remove, 5*time.Minute,
			"Stops and deletes a database, its data and its backups.").destroys("The database, its data and its backups.")),
	}
}
