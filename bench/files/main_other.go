//go:build !unix

package main

import "fmt"

func main() { fmt.Println("this benchmark needs a Unix system") }
