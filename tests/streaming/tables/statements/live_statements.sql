-- What administrators and their tools do to tables of MariaDB 10.11, one statement a line; `live_statements.py` runs them.

-- Columns
CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20), tiny TINYINT, cost DECIMAL(5,2), f FLOAT)
INSERT INTO orders (name, tiny, cost, f) VALUES ('a', 1, 1.25, 0.1), ('b', -7, NULL, 2), (NULL, NULL, 99.99, NULL)
INSERT INTO orders (id, name, tiny, cost, f) VALUES (50, 'never touched', 5, 5.55, 1e-3)
ALTER TABLE orders ADD zero INT NOT NULL, ADD empty VARCHAR(9) NOT NULL, ADD price DECIMAL(10,3) DEFAULT 1.5
INSERT INTO orders (name) VALUES ('c')
ALTER TABLE orders ADD day DATE NOT NULL DEFAULT '2020-02-29', ADD at DATETIME(3) DEFAULT '2020-01-02 03:04:05.678' FIRST
ALTER TABLE orders ADD stamp TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), ADD seen TIMESTAMP NULL
ALTER TABLE orders ADD state ENUM('new','paid') NOT NULL, ADD flags SET('a','b','c') DEFAULT 'a,c' AFTER id
ALTER TABLE orders ADD bits BIT(9) DEFAULT b'101', ADD yes BIT(1) DEFAULT 1, ADD y YEAR DEFAULT 2024, ADD t TIME DEFAULT '-01:02:03'
ALTER TABLE orders ADD d DOUBLE DEFAULT 1e-3, ADD big BIGINT UNSIGNED DEFAULT 18446744073709551615, ADD u SMALLINT UNSIGNED DEFAULT 65535
ALTER TABLE orders ADD body TEXT NOT NULL, ADD bin BINARY(4) DEFAULT 'ab', ADD raw VARBINARY(9) DEFAULT 'raw', ADD js JSON DEFAULT '{}'
ALTER TABLE orders ADD latin CHAR(5) CHARACTER SET latin1 DEFAULT 'ä€', ADD sj VARCHAR(9) CHARACTER SET sjis DEFAULT 'ソース'
INSERT INTO orders (name, state, flags, sj) VALUES ('d', 'paid', 'b', '表示')
UPDATE orders SET name = CONCAT(name, '!'), bits = 511 WHERE id < 3
ALTER TABLE orders MODIFY tiny SMALLINT, MODIFY cost DECIMAL(10,4), MODIFY f DOUBLE, MODIFY name TEXT, MODIFY u INT UNSIGNED
ALTER TABLE orders MODIFY state ENUM('new','paid','sent') NOT NULL, MODIFY flags SET('a','b','c','d'), MODIFY y YEAR, MODIFY raw BLOB
INSERT INTO orders (name, tiny, cost, f, u, state, flags) VALUES ('e', 30000, 123456.7891, 1e300, 4000000000, 'sent', 'a,d')
ALTER TABLE orders MODIFY tiny BIGINT UNSIGNED, MODIFY zero DECIMAL(20,2) NOT NULL, MODIFY latin VARCHAR(50) CHARACTER SET utf8mb4
UPDATE orders SET tiny = 18446744073709551615 WHERE id = 1
ALTER TABLE orders RENAME COLUMN name TO title, CHANGE price cost2 DECIMAL(12,3), DROP COLUMN seen
ALTER TABLE orders RENAME COLUMN title TO body, RENAME COLUMN body TO title
ALTER TABLE orders DROP COLUMN yes, ADD COLUMN yes VARCHAR(3) DEFAULT 'yes', ADD COLUMN IF NOT EXISTS u INT, DROP COLUMN IF EXISTS nothing
ALTER TABLE orders DROP COLUMN t
INSERT INTO orders (title, body) VALUES ('f', 'g')
ALTER TABLE orders ADD COLUMN t TIME(2) NOT NULL, MODIFY Title TEXT, ALGORITHM=COPY
ALTER TABLE orders MODIFY ID BIGINT NOT NULL AUTO_INCREMENT, ALTER COLUMN big SET DEFAULT 5, ALTER COLUMN y DROP DEFAULT
INSERT INTO orders (title, body, t, y) VALUES ('h', 'i', '12:34:56.78', 1999)
UPDATE orders SET id = id + 100 WHERE id IN (2, 3)
DELETE FROM orders WHERE id = 51
REPLACE INTO orders (id, title, body, t, y) VALUES (1, 'again', '', '00:00:00', NULL)

-- Names: RENAME, TRUNCATE, DROP, CREATE
CREATE TABLE left_one (id INT PRIMARY KEY, v VARCHAR(10))
CREATE TABLE right_one (id INT PRIMARY KEY, w DATETIME)
INSERT INTO left_one VALUES (1, 'l'), (2, 'l')
INSERT INTO right_one VALUES (1, '2020-01-01'), (9, NULL)
RENAME TABLE left_one TO between_them, right_one TO left_one, between_them TO right_one
UPDATE left_one SET w = '2021-01-01' WHERE id = 9
INSERT INTO right_one VALUES (3, 'r')
ALTER TABLE left_one RENAME TO moved, ADD COLUMN more INT DEFAULT 3
INSERT INTO moved VALUES (4, NULL, 4)
RENAME TABLE moved TO left_one
CREATE TABLE short_lived (id INT PRIMARY KEY)
INSERT INTO short_lived VALUES (1)
DROP TABLE short_lived
CREATE TABLE emptied (id INT PRIMARY KEY, v INT)
INSERT INTO emptied VALUES (1, 1), (2, 2)
TRUNCATE TABLE emptied
INSERT INTO emptied VALUES (2, 3)
CREATE TABLE anew (id INT PRIMARY KEY, v INT)
INSERT INTO anew VALUES (1, 1)
DROP TABLE anew
CREATE TABLE anew (id BIGINT PRIMARY KEY, other TEXT)
INSERT INTO anew VALUES (7, 'seven')
CREATE OR REPLACE TABLE anew (code CHAR(2) PRIMARY KEY, v INT)
INSERT INTO anew VALUES ('de', 1), ('at', 2)
CREATE TABLE IF NOT EXISTS anew (nothing INT)
CREATE TABLE copied (PRIMARY KEY (id)) SELECT * FROM right_one
CREATE TABLE alike LIKE right_one
INSERT INTO alike SELECT * FROM right_one WHERE id > 1
CREATE DATABASE other
CREATE TABLE other.away (id INT PRIMARY KEY, v INT)
INSERT INTO other.away VALUES (1, 2)
RENAME TABLE other.away TO back
DROP DATABASE other
INSERT INTO back VALUES (2, 3)

-- Keys
CREATE TABLE keyless (a INT, b VARCHAR(10))
INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (2, 'y'), (NULL, NULL)
DELETE FROM keyless WHERE a = 1 LIMIT 1
UPDATE keyless SET b = 'z' WHERE a IS NULL
ALTER TABLE keyless ADD c INT DEFAULT 4
INSERT INTO keyless VALUES (3, 'w', 5)
UPDATE keyless SET a = 9 WHERE a IS NULL
ALTER TABLE keyless ADD PRIMARY KEY (a)
UPDATE keyless SET b = 'keyed' WHERE a = 2
DELETE FROM keyless WHERE a = 3
ALTER TABLE keyless DROP PRIMARY KEY, ADD PRIMARY KEY (b, a)
UPDATE keyless SET a = 5 WHERE b = 'keyed'
ALTER TABLE keyless DROP PRIMARY KEY
INSERT INTO keyless SELECT * FROM keyless
DELETE FROM keyless WHERE a = 5 LIMIT 1

-- gh-ost 1.1, as it sends them; rows come in while it copies
CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(10), price INT)
INSERT INTO items VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)
drop /* gh-ost */ table if exists `shop`.`_items_gho`
drop /* gh-ost */ table if exists `shop`.`_items_del`
drop /* gh-ost */ table if exists `shop`.`_items_ghc`
create /* gh-ost */ table `shop`.`_items_ghc` (id bigint unsigned auto_increment, last_update timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, hint varchar(64) charset ascii not null, value varchar(4096) charset ascii not null, primary key(id), unique key hint_uidx(hint)) auto_increment=256
insert /* gh-ost */ into `shop`.`_items_ghc` (id, hint, value) values (NULLIF(2, 0), 'state', 'GhostTableMigrated') on duplicate key update last_update=NOW(), value=VALUES(value)
create /* gh-ost */ table `shop`.`_items_gho` like `shop`.`items`
alter /* gh-ost */ table `shop`.`_items_gho` ADD COLUMN stock INT NOT NULL DEFAULT 7, MODIFY price BIGINT
insert /* gh-ost `shop`.`items` */ ignore into `shop`.`_items_gho` (`id`, `name`, `price`) (select `id`, `name`, `price` from `shop`.`items` force index (`PRIMARY`) where `id` <= 2 lock in share mode)
INSERT INTO items VALUES (4, 'd', 40)
UPDATE items SET price = 21 WHERE id = 2
replace /* gh-ost `shop`.`_items_gho` */ into `shop`.`_items_gho` (`id`, `name`, `price`) values (4, 'd', 40)
update /* gh-ost `shop`.`_items_gho` */ `shop`.`_items_gho` set `id`=2, `name`='b', `price`=21 where ((`id` = 2))
DELETE FROM items WHERE id = 1
delete /* gh-ost `shop`.`_items_gho` */ from `shop`.`_items_gho` where ((`id` = 1))
insert /* gh-ost `shop`.`items` */ ignore into `shop`.`_items_gho` (`id`, `name`, `price`) (select `id`, `name`, `price` from `shop`.`items` force index (`PRIMARY`) where `id` > 2 lock in share mode)
create /* gh-ost */ table `shop`.`_items_del` (id int auto_increment primary key) engine=InnoDB comment='ghost-cut-over-sentry'
drop /* gh-ost */ table if exists `shop`.`_items_del`
rename /* gh-ost */ table `shop`.`items` to `shop`.`_items_del`, `shop`.`_items_gho` to `shop`.`items`
drop /* gh-ost */ table if exists `shop`.`_items_ghc`
drop /* gh-ost */ table if exists `shop`.`_items_del`
INSERT INTO items VALUES (5, 'e', 50, 1)

-- pt-online-schema-change 3, the same
CREATE TABLE stock (id INT NOT NULL PRIMARY KEY, amount INT DEFAULT NULL)
INSERT INTO stock VALUES (1, 1), (2, 2), (3, 3)
CREATE TABLE `shop`.`_stock_new` ( `id` int(11) NOT NULL, `amount` int(11) DEFAULT NULL, PRIMARY KEY (`id`) ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
ALTER TABLE `shop`.`_stock_new` ADD COLUMN place VARCHAR(10) DEFAULT 'here', MODIFY amount DECIMAL(12,2)
CREATE TRIGGER `pt_osc_shop_stock_del` AFTER DELETE ON `shop`.`stock` FOR EACH ROW BEGIN DECLARE CONTINUE HANDLER FOR 1146 begin end; DELETE IGNORE FROM `shop`.`_stock_new` WHERE `shop`.`_stock_new`.`id` <=> OLD.`id`; END
CREATE TRIGGER `pt_osc_shop_stock_upd` AFTER UPDATE ON `shop`.`stock` FOR EACH ROW BEGIN DECLARE CONTINUE HANDLER FOR 1146 begin end; DELETE IGNORE FROM `shop`.`_stock_new` WHERE !(OLD.`id` <=> NEW.`id`) AND `shop`.`_stock_new`.`id` <=> OLD.`id`; REPLACE INTO `shop`.`_stock_new` (`id`, `amount`) VALUES (NEW.`id`, NEW.`amount`); END
CREATE TRIGGER `pt_osc_shop_stock_ins` AFTER INSERT ON `shop`.`stock` FOR EACH ROW BEGIN DECLARE CONTINUE HANDLER FOR 1146 begin end; REPLACE INTO `shop`.`_stock_new` (`id`, `amount`) VALUES (NEW.`id`, NEW.`amount`);END
INSERT INTO stock VALUES (4, 4)
UPDATE stock SET id = 12, amount = 20 WHERE id = 2
INSERT LOW_PRIORITY IGNORE INTO `shop`.`_stock_new` (`id`, `amount`) SELECT `id`, `amount` FROM `shop`.`stock` LOCK IN SHARE MODE /*pt-online-schema-change 4711 copy table*/
DELETE FROM stock WHERE id = 3
ANALYZE TABLE `shop`.`_stock_new` /* pt-online-schema-change */
RENAME TABLE `shop`.`stock` TO `shop`.`_stock_old`, `shop`.`_stock_new` TO `shop`.`stock`
DROP TABLE IF EXISTS `shop`.`_stock_old`
DROP TRIGGER IF EXISTS `shop`.`pt_osc_shop_stock_del`
DROP TRIGGER IF EXISTS `shop`.`pt_osc_shop_stock_upd`
DROP TRIGGER IF EXISTS `shop`.`pt_osc_shop_stock_ins`
INSERT INTO stock VALUES (5, 5.5, 'there')

-- Partial row images
CREATE TABLE partly (id INT PRIMARY KEY, a INT DEFAULT 3, b VARCHAR(20) DEFAULT 'none', c TEXT, d DATETIME DEFAULT '2020-01-01')
SET SESSION binlog_row_image = MINIMAL
INSERT INTO partly (id) VALUES (1)
INSERT INTO partly (id, b, c) VALUES (2, 'two', 'long'), (3, NULL, 'longer')
UPDATE partly SET a = 30 WHERE id = 3
UPDATE partly SET id = 20 WHERE id = 2
UPDATE partly SET id = 21, b = 'moved' WHERE id = 20
ALTER TABLE partly ADD e INT DEFAULT 8, ALTER COLUMN a SET DEFAULT 4
INSERT INTO partly (id, d) VALUES (5, NULL)
UPDATE partly SET e = e + id
DELETE FROM partly WHERE id = 1
SET SESSION binlog_row_image = NOBLOB
UPDATE partly SET a = 31 WHERE id = 3
UPDATE partly SET id = 22 WHERE id = 21
INSERT INTO partly (id) VALUES (6)
UPDATE partly SET c = 'other' WHERE id = 6
SET SESSION binlog_row_image = FULL
UPDATE partly SET d = '2021-01-01' WHERE id = 5
