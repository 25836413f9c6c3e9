CREATE DATABASE shop CHARACTER SET utf8mb4;
CREATE DATABASE `my-db`;
CREATE TABLE shop.everything (id INT PRIMARY KEY,
b1 BOOLEAN, b1n BOOLEAN NOT NULL DEFAULT TRUE, t1 TINYINT(1), ti TINYINT, tu TINYINT UNSIGNED, si SMALLINT, su SMALLINT UNSIGNED,
mi MEDIUMINT, mu MEDIUMINT UNSIGNED, i INT, iu INT UNSIGNED, iz INT(5) UNSIGNED ZEROFILL, bi BIGINT, bu BIGINT UNSIGNED,
de DECIMAL(10,2), du DECIMAL(10,3) UNSIGNED, dd DECIMAL(8,2) NOT NULL DEFAULT 1.50, d0 DECIMAL(5), dl DECIMAL(65,30), nu NUMERIC(4,1),
f FLOAT, fm FLOAT(7,4), f53 FLOAT(53), fu FLOAT UNSIGNED, d DOUBLE, dm DOUBLE(10,3), r REAL, fd FLOAT NOT NULL DEFAULT 0.5,
bit1 BIT(1), bit5 BIT(5), bit12 BIT(12), bit64 BIT(64), y YEAR,
da DATE, ti0 TIME, ti3 TIME(3), ti6 TIME(6), dt DATETIME, dt2 DATETIME(2), dt3 DATETIME(3), dt6 DATETIME(6), ts TIMESTAMP NULL, ts3 TIMESTAMP(3) NULL, ts6 TIMESTAMP(6) NULL,
c CHAR(5), vc VARCHAR(30), vcl VARCHAR(30) CHARACTER SET latin1, vcd VARCHAR(20) NOT NULL DEFAULT 'a"b', tt TINYTEXT, tx TEXT, mt MEDIUMTEXT, lt LONGTEXT,
bn BINARY(4), vb VARBINARY(10), tb TINYBLOB, bl BLOB, mb MEDIUMBLOB, lb LONGBLOB,
en ENUM('a','b,c','d''e'), st SET('x','y','z'), js JSON, 
g GEOMETRY, po POINT, li LINESTRING, pg POLYGON, gc GEOMETRYCOLLECTION,
nn INT NOT NULL COMMENT 'a comment', nd INT DEFAULT 7, ndn INT NOT NULL DEFAULT 5, dtd DATETIME NOT NULL DEFAULT '2020-01-02 03:04:05', tsd TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, 
dad DATE NOT NULL DEFAULT '2020-01-02', end ENUM('p','q') NOT NULL DEFAULT 'p', std SET('p','q') NOT NULL DEFAULT 'p,q', bid BIGINT UNSIGNED NOT NULL DEFAULT 9, bitd BIT(1) NOT NULL DEFAULT b'1', tid TIME NOT NULL DEFAULT '01:02:03', yd YEAR NOT NULL DEFAULT 2001, bnd BINARY(4) NOT NULL DEFAULT 'ab', dtn DATETIME DEFAULT '2020-01-02 03:04:05'
) COMMENT='all of them';
INSERT INTO shop.everything (id, nn, b1, b1n, t1, ti, tu, si, su, mi, mu, i, iu, iz, bi, bu, de, du, dd, d0, dl, nu, f, fm, f53, fu, d, dm, r,
  bit1, bit5, bit12, bit64, y, da, ti0, ti3, ti6, dt, dt2, dt3, dt6, ts, ts3, ts6, c, vc, vcl, vcd, tt, tx, mt, lt, bn, vb, tb, bl, mb, lb, en, st, js,
  g, po, li, pg, gc) VALUES (1, 1, 1, 0, 2, -5, 200, -300, 60000, -70000, 16000000, -2000000, 4000000000, 42, -9000000000000000, 9,
  -12.34, 1.5, 2.25, 77, 12345678901234567890.123456789012345678901234567890, 1.5, 1.5, 3.1416, 2.718281828, 0, 1e100, 1234.5, -0.1,
  b'1', b'10101', b'100000000001', b'1000000000000000000000000000000000000000000000000000000000000001', 2024,
  '2024-02-29', '00:00:00', '12:34:56.789', '12:34:56.789012', '2024-02-29 12:34:56', '2024-02-29 12:34:56.78', '2024-02-29 12:34:56.780',
  '2024-02-29 12:34:56.789012', '2024-02-29 12:34:56', '2024-02-29 12:34:56.780', '2024-02-29 12:34:56.789000', 'abc', 'ü€😀', 'ü', 'x',
  'tt', 'tx', 'mt', 'lt', 'ab', '\0a', 'tb', 'bl', 'mb', 'lb', 'b,c', 'x,z', '{"a": [1, 2.50, "x"]}',
  ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('POINT(1.5 2.5)', 4326), ST_GeomFromText('LINESTRING(0 0,1 1)'),
  ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))'), ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1))'));
INSERT INTO shop.everything (id, nn) VALUES (2, 5);
INSERT INTO shop.everything (id, nn, f, d, fm, dm, de) VALUES (3, 5, 0, 0, 0, 0, 0), (4, 5, 1, 100, 1, 1, 1), (5, 5, 1.1, 1e15, 0.1, 0.1, 10),
  (6, 5, 1e20, 1e22, -0.5, 123456, -1), (7, 5, 0.001, 123456789.125, 3.3333, 1e6, 0.01), (8, 5, -0.0, 1e-5, 3.3333, 1e6, 0.01);
UPDATE shop.everything SET vc = 'new' WHERE id = 1;
DELETE FROM shop.everything WHERE id = 2;
CREATE TABLE shop.items (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(8,2));
CREATE TABLE shop.log (message VARCHAR(40));
CREATE TABLE `my-db`.`größe-2` (`a-b` INT NOT NULL DEFAULT 4 COMMENT 'the key' PRIMARY KEY, `1x` INT, `c d` INT);
INSERT INTO `my-db`.`größe-2` VALUES (1, 2, 3);
BEGIN;
INSERT INTO shop.items VALUES (1, 'a', 1.10), (2, 'b', 2.20), (3, 'c', 3.30);
INSERT INTO shop.log VALUES ('first'), ('second');
UPDATE shop.items SET price = price + 1 WHERE id < 3;
COMMIT;
UPDATE shop.items SET id = 30 WHERE id = 3;
DELETE FROM shop.items WHERE id = 2;
DELETE FROM shop.log WHERE message = 'first';
TRUNCATE TABLE shop.items;
ALTER TABLE shop.items ADD COLUMN stock INT NOT NULL DEFAULT 3 COMMENT 'how many';
INSERT INTO shop.items VALUES (8, 'eight', 8.88, 8);
CREATE TABLE shop.two (a INT, b VARCHAR(10), c INT, PRIMARY KEY (b, a));
INSERT INTO shop.two VALUES (1, 'x', 2);
UPDATE shop.two SET a = 2, b = 'y';
CREATE TABLE shop.uniq (a INT NOT NULL, b INT, UNIQUE KEY (a));
INSERT INTO shop.uniq VALUES (1, 2);
RENAME TABLE shop.two TO shop.three;
RENAME TABLE shop.three TO `my-db`.three;
INSERT INTO `my-db`.three VALUES (5, 'z', 2);
CREATE INDEX ix ON shop.items (name);
ALTER TABLE shop.items MODIFY name VARCHAR(60), RENAME COLUMN stock TO stocks;
CREATE TABLE shop.copy LIKE shop.items;
CREATE TABLE shop.filled AS SELECT * FROM shop.items;
CREATE VIEW shop.v AS SELECT id FROM shop.items;
DROP VIEW shop.v;
CREATE TEMPORARY TABLE shop.tmp (i INT);
CREATE USER somebody IDENTIFIED BY 'Leak-7731';
DROP TABLE shop.copy, shop.filled;
DROP DATABASE `my-db`;
CREATE TABLE shop.outbox (id CHAR(36) PRIMARY KEY, aggregatetype VARCHAR(20) NOT NULL, aggregateid VARCHAR(20) NOT NULL,
  type VARCHAR(20) NOT NULL, payload VARCHAR(200));
INSERT INTO shop.outbox VALUES ('406c07f3-26f0-4eea-a50c-109940064b8f', 'order', '17', 'OrderCreated', '{"id": 17, "lines": [1, 2]}');
INSERT INTO shop.outbox VALUES ('406c07f3-26f0-4eea-a50c-109940064b90', 'order', '17', 'OrderPaid', NULL);
DELETE FROM shop.outbox;
CREATE TABLE shop.days (day DATE, moment DATETIME(3), zero YEAR, PRIMARY KEY (day, moment));
INSERT INTO shop.days VALUES ('2024-01-31', '2024-01-31 01:02:03.5', 0), ('2024-02-01', '2024-01-31 01:02:03.5', 2024);
UPDATE shop.days SET day = '2024-02-29', zero = 2000 WHERE zero = 2024;
DELETE FROM shop.days;
CREATE DATABASE zz;
CREATE TABLE zz.stop (id INT PRIMARY KEY);
INSERT INTO zz.stop VALUES (1);
