// Package inside is srt-init: process 1 of a sandbox. It carries out the mount
// plan, opens the network of the sandbox, starts the command without any
// privilege, performs the calls that can create names, and ends with the
// command or with the host half, whichever is first.
//
// The package imports little on purpose. It takes its process over while the
// program's packages are being initialised, and what it does not import is not
// initialised before.
package inside
