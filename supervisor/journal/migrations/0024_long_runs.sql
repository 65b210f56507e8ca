-- +goose Up
-- Runs get numbers from 2^32 on, in steps of 32: 32 times the room for calls. Earlier runs keep their numbers and their room.
UPDATE run_counter SET number = 4294967296;
