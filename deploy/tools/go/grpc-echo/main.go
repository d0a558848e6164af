// A client and a server on grpc-go, which speak the methods `/echo.Echo/…` with plain bytes.
//
//	grpc-echo server          listens on a free port of 127.0.0.1, which it prints
//	grpc-echo client ADDRESS  calls each method, and prints what arrived as JSON
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

type codec struct{}

func (codec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (codec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (codec) Name() string { return "bytes" }

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Every method is served as a stream: a unary call is one with one message each way.
func echo(_ any, stream grpc.ServerStream) error {
	stream.SetTrailer(metadata.Pairs("x-trailer", "kept"))
	method, _ := grpc.MethodFromServerStream(stream)
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if method == "/echo.Echo/Fail" {
			return status.Error(codes.FailedPrecondition, "not now")
		}
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}

func serve() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	must(grpc.NewServer(grpc.ForceServerCodec(codec{}), grpc.UnknownServiceHandler(echo)).Serve(listener))
}

type result struct {
	Messages []string
	Code     uint32
	Details  string
	Trailer  []string
}

func resultOf(messages []string, trailer metadata.MD, err error) result {
	got := status.Convert(err)
	return result{messages, uint32(got.Code()), got.Message(), trailer.Get("x-trailer")}
}

func unary(ctx context.Context, connection *grpc.ClientConn, method string) result {
	var trailer metadata.MD
	var answer []byte
	message := []byte("message")
	err := connection.Invoke(ctx, method, &message, &answer, grpc.Trailer(&trailer))
	return resultOf([]string{string(answer)}, trailer, err)
}

// Sends each message after the answer to the one before.
func both(ctx context.Context, connection *grpc.ClientConn) result {
	description := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := connection.NewStream(ctx, description, "/echo.Echo/Both")
	must(err)
	var messages []string
	var answer []byte
	for _, each := range []string{"one", "two", "three"} {
		message := []byte(each)
		must(stream.SendMsg(&message))
		must(stream.RecvMsg(&answer))
		messages = append(messages, string(answer))
	}
	must(stream.CloseSend())
	err = stream.RecvMsg(&answer)
	if err == io.EOF {
		err = nil
	}
	return resultOf(messages, stream.Trailer(), err)
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "server" {
		serve()
	}
	connection, err := grpc.NewClient("passthrough:///"+os.Args[2],
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})))
	must(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(json.NewEncoder(os.Stdout).Encode(map[string]result{
		"Unary": unary(ctx, connection, "/echo.Echo/Unary"),
		"Fail":  unary(ctx, connection, "/echo.Echo/Fail"),
		"Both":  both(ctx, connection),
	}))
}
