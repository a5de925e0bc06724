//go:build !linux

package main

import "fmt"

func main() { fmt.Println("this benchmark needs Linux") }
