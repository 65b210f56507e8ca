package catalog

import (
	"time"

	"writ"
)

// HeroDBCreate holds the arguments of herodb.create.
type HeroDBCreate struct {
	MemoryMiB int64    `writ:"memory_mib,required,mutable,min=16,max=16777216,uses=memory_mib" help:"memory it may use, in MiB"`
	Persist   bool     `writ:"persist" help:"keep the data on disk; without it a restart loses it"`
	SizeGiB   int64    `writ:"size_gib,mutable,default=1,min=1,max=65536,uses=disk_gib" help:"space for data and backups, in GiB; it can grow and never shrink"`
	Engines   []string `writ:"engines,enum=herodb|hero_redis|redis-server|valkey-server,max=4,engine=name" help:"the engines that will do, best first; any that its node offers if none is given"`
	Version   string   `writ:"version,mutable,form=version,engine=version" help:"the engine's version, as far as it is given: 7 fits 7.2.4; another one than serves it upgrades the database"`
	Network   writ.Ref `writ:"network,kinds=network" help:"the network on which it listens; the node's own address if not given"`
	Password  Text     `writ:"password,mutable,hidden,min=8,max=1024" help:"the password of clients; without it the node makes one that no script sees: set one for databases that scripts connect to"`
}

// Backup names a backup of a database.
type Backup struct {
	Backup string `writ:"backup,required,form=name" help:"the backup's name within its database"`
}

// HeroDB is the result of operations on a database. Results never contain the password.
type HeroDB struct {
	Identity
	State         string   `writ:"state,required" help:"running or stopped"`
	Address       string   `writ:"address,required" help:"host and port, as clients take it"`
	Host          string   `writ:"host,required" help:"the address alone"`
	Port          int64    `writ:"port,required" help:"the TCP port alone"`
	Engine        string   `writ:"engine,required" help:"which engine serves it"`
	Version       string   `writ:"version,required" help:"the engine's version"`
	SecretVersion int64    `writ:"secret_version,required" help:"counts the secrets it has had, from 1; the secret itself is never shown"`
	Backups       []string `writ:"backups" help:"the names of its backups, sorted"`
}

func herodbOperations() []*Operation {
	herodb := Operation{Module: "herodb", Kind: writ.KindHeroDB, Repeat: Safe}
	return []*Operation{
		declare[HeroDBCreate, HeroDB](herodb.with("create", Make, 5*time.Minute,
			"Makes a database that speaks the Redis protocol, and starts it.").
			uses("A database that exists gets another size, version or password; one without `persist` is empty after a restart.")),
		declare[Nothing, HeroDB](herodb.with("get", Find, time.Minute,
			"Finds a database that an earlier run made.").reads()),
		declare[Backup, HeroDB](herodb.with("backup", Alter, time.Hour,
			"Keeps what a database holds now as a backup; one that exists under the name stays as it is.").adds()),
		declare[Backup, HeroDB](herodb.with("restore", Alter, time.Hour,
			"Puts a database back to a backup; what was written since is lost.").
			destroys("What was written to the database since the backup.").once()),
		declare[Backup, HeroDB](herodb.with("delete_backup", Alter, 5*time.Minute,
			"Deletes a backup of a database; the database keeps its data.").destroys("The backup.")),
		declare[Nothing, HeroDB](herodb.with("rotate_secret", Alter, time.Minute,
			"Gives a database a new secret; clients with the old one can no longer connect.").
			uses("Clients with the old secret can no longer write.").once()),
		declare[Nothing, Identity](herodb.with("delete", Remove, 5*time.Minute,
			"Stops and deletes a database, its data and its backups.").destroys("The database, its data and its backups.")),
	}
}
